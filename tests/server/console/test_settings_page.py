# SPDX-License-Identifier: MIT
"""The page of settings: a secret is shown once, each form does what it says, and a viewer sees their own."""

from datetime import timedelta

import pytest

from redrive.access import Role, rights_of
from redrive.history import Retention
from tests.server.console.html import page_of

CHANGES = (
    ("/settings/tokens", "tokens.write"),
    ("/settings/tokens/x/revoke", "tokens.write"),
    ("/settings/users", "users.write"),
    ("/settings/users/x/password", "users.write"),
    ("/settings/users/x/remove", "users.write"),
    ("/settings/redactions", "redactions.write"),
    ("/settings/redactions/remove", "redactions.write"),
    ("/settings/webhooks", "webhooks.write"),
    ("/settings/webhooks/x/test", "webhooks.write"),
    ("/settings/webhooks/x/remove", "webhooks.write"),
)


async def test_a_token_is_shown_once_and_revoked(browser, desk):
    made = page_of(await browser.post("/settings/tokens", data={"name": "ci", "role": "operator", "days": "30"}))
    (token,) = await desk.access.tokens()
    assert (token.name, token.rights.role, token.expires_at is None) == ("ci", Role.OPERATOR, False)
    secret = next(word for word in made.text.split() if word.startswith(token.id) and len(word) > len(token.id) + 1)
    assert secret not in page_of(await browser.get("/settings")).text
    assert (await browser.post(f"/settings/tokens/{token.id}/revoke", data={})).status_code == 303
    assert (await desk.access.tokens())[0].revoked_at is not None


async def test_a_person_is_added_with_a_limit_to_queues_and_removed(browser, desk):
    given = {"name": "vera", "password": "a long password", "role": "viewer", "queues": "orders, bills"}
    await browser.post("/settings/users", data=given)
    (user,) = await desk.access.users()
    assert (user.name, user.rights.queues) == ("vera", ("orders", "bills"))
    page = page_of(await browser.get("/settings"))
    assert "orders and bills" in page.text
    assert "a long password" not in page.text
    await browser.post("/settings/users/vera/remove", data={})
    assert await desk.access.users() == []


async def test_a_rule_is_shown_although_it_matches_itself_and_is_removed(as_role, desk):
    browser = as_role(Role.ADMIN, may_see_bodies=True)
    await browser.post("/settings/redactions", data={"kind": "pattern", "value": "secret-[0-9]+|secret"})
    assert "secret-[0-9]+|secret" in page_of(await browser.get("/settings")).text
    (rule,) = await desk.access.redactions.rules()
    assert (await browser.post("/settings/redactions/remove", data={"number": str(rule.number)})).status_code == 303
    assert await desk.access.redactions.rules() == []


async def test_what_a_rule_hides_is_hidden_in_other_lists_and_a_new_token_is_whole(browser, desk):
    await desk.notifications.add("chat", "https://chat.example.com/abc-123", ["new-group"])
    await desk.access.redactions.add("pattern", "abc-[0-9]+|redrive_[a-z0-9]+")
    made = await browser.post("/settings/tokens", data={"name": "ci"})
    assert made.headers["cache-control"] == "no-store"
    assert "abc-123" not in made.text
    assert "redrive_" in page_of(made).text.partition("Copy it now")[2].partition("This browser")[0]


async def test_a_webhook_shows_its_secret_once(browser, desk):
    answer = await browser.post(
        "/settings/webhooks", data={"name": "chat", "url": "https://chat.example.com/1", "events": ""}
    )
    assert "Secret of chat" in page_of(answer).text
    (found,) = await desk.notifications.webhooks()
    assert len(found.events) > 1
    await browser.post("/settings/webhooks/chat/remove", data={})
    assert await desk.notifications.webhooks() == []


async def test_a_redirect_is_added_and_removed(browser, desk):
    await desk.broker.declare("new")
    given = {"queue": "old", "to": "new"}
    assert (await browser.post("/settings/redirects", data=given)).headers["location"] == "/settings#redirects"
    assert await desk.recovery.redirects() == {"old": "new"}
    page = page_of(await browser.get("/settings"))
    assert "/queues/new" in page.links
    (form,) = [form for form in page.forms if form.fields.get("queue") == "old"]
    await browser.post(form.action, data=form.fields)
    assert await desk.recovery.redirects() == {}


async def test_what_is_refused_comes_back_with_the_sentence_and_what_was_typed(browser, desk):
    answer = await browser.post("/settings/redirects", data={"queue": "old", "to": "not-there"})
    page = page_of(answer)
    assert answer.status_code == 404
    assert "'not-there'" in page.text
    assert any(form.fields.get("queue") == "old" and form.fields.get("to") == "not-there" for form in page.forms)
    short = await browser.post("/settings/users", data={"name": "vera", "password": "pw-1"})
    assert (short.status_code, await desk.access.users()) == (400, [])
    assert "pw-1" not in short.text
    assert (await browser.post("/settings/tokens", data={"name": "ci", "days": "soon"})).status_code == 422
    assert (await browser.post("/settings/users/none-here/remove", data={})).status_code == 404


async def test_the_last_admin_stays(browser, desk):
    await desk.access.add_user("ann", "a long password", rights_of("admin"))
    answer = await browser.post("/settings/users/ann/remove", data={})
    assert answer.status_code == 409
    assert "admin" in page_of(answer).text
    assert [each.name for each in await desk.access.users()] == ["ann"]


async def test_a_person_gets_another_password(browser, desk):
    await desk.access.add_user("vera", "a long password", rights_of("viewer"))
    await browser.post("/settings/users/vera/password", data={"password": "another password"})
    assert await desk.access.sign_in("vera", "another password", "10.0.0.7")


async def test_a_person_gets_another_role(browser, desk):
    await desk.access.add_user("ann", "a long password", rights_of("admin"))
    await desk.access.add_user("vera", "a long password", rights_of("viewer"))
    (form,) = [each for each in page_of(await browser.get("/settings")).forms if each.action.endswith("/vera/rights")]
    answer = await browser.post(form.action, data={"role": "operator", "queues": "orders bills.*"})
    assert answer.headers["location"] == "/settings#users"
    assert (await desk.access.users())[1].rights == rights_of("operator", ["orders", "bills.*"])
    refused = await browser.post("/settings/users/ann/rights", data={"role": "viewer"})
    assert refused.status_code == 409
    assert (await desk.access.users())[0].rights == rights_of("admin")
    assert "is operator now" in page_of(await browser.get("/audit", params={"subject": "user:vera"})).text


async def test_the_page_says_how_long_figures_are_kept(as_role, desk):
    await desk.history.keep(Retention(minutes=timedelta(days=7), hours=timedelta(days=60)))
    page = page_of(await as_role(Role.VIEWER).get("/settings"))
    assert "Figures by the minute 7 d" in page.text
    assert "Figures by the hour 60 d" in page.text


async def test_hostile_names_are_shown_and_never_run(browser):
    hostile = '<script>alert(1)</script>"'
    await browser.post("/settings/tokens", data={"name": hostile})
    await browser.post("/settings/redactions", data={"kind": "header", "value": "<b>x"})
    refused = await browser.post("/settings/redirects", data={"queue": f"{hostile}\u202e", "to": hostile})
    for answer in (refused, await browser.get("/settings")):
        assert page_of(answer).wrong == []
        assert "alert(1)" in answer.text
        assert "<script>alert" not in answer.text
        assert "<b>x" not in answer.text
        assert "\u202e" not in answer.text


async def test_zone_theme_and_rows_are_kept_in_cookies_of_the_browser(browser):
    given = {"zone": "Asia/Tokyo", "theme": "dark", "density": "compact"}
    assert (await browser.post("/settings/own", data=given)).status_code == 303
    answer = await browser.get("/settings")
    assert 'data-theme="dark"' in answer.text
    assert 'data-density="compact"' in answer.text
    assert 'data-zone="Asia/Tokyo"' in answer.text
    assert (await browser.post("/settings/own", data={"zone": "Mars/Base"})).status_code == 422


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
async def test_who_is_no_admin_sees_no_tokens_and_no_people(as_role, desk, role):
    someone = as_role(role)
    page = page_of(await someone.get("/settings"))
    assert "Tokens of programs" not in page.text
    assert "People who sign in" not in page.text
    assert not await desk.recovery.trail()
    for path, action in CHANGES:
        answer = await someone.post(path, data={"name": "x", "number": "1", "kind": "header", "value": "x"})
        assert (path, answer.status_code) == (path, 403)
        assert (await desk.recovery.trail(limit=1))[0].action == action
    assert (await desk.access.tokens(), await desk.access.redactions.rules()) == ([], [])


async def test_a_viewer_sees_redirects_and_why_they_cannot_change_them(as_role, desk):
    await desk.broker.declare("new")
    await desk.recovery.redirect("old", "new")
    viewer = as_role(Role.VIEWER)
    page = page_of(await viewer.get("/settings"))
    assert "/queues/new" in page.links
    assert len(page.disabled) == 2
    assert all(page.disabled)
    answer = await viewer.post("/settings/redirects", data={"queue": "old"})
    assert (answer.status_code, await desk.recovery.redirects()) == (403, {"old": "new"})


async def test_who_may_not_see_what_is_hidden_cannot_allow_it_to_a_token(browser, as_role, desk):
    given = {"name": "ci", "bodies": "yes"}
    assert (await browser.post("/settings/tokens", data=given)).status_code == 403
    await as_role(Role.ADMIN, may_see_bodies=True).post("/settings/tokens", data=given)
    assert [each.rights.may_see_bodies for each in await desk.access.tokens()] == [True]
