# SPDX-License-Identifier: MIT
"""Who a request is from: tokens, sessions, proxies, and this machine."""

from dataclasses import replace

import httpx
import pytest

from redrive.access import rights_of
from redrive.server import ServerSettings, create_app
from redrive.server.door import CSRF_HEADER, GuardedDoor, OpenDoor

PASSWORD = "correct horse battery"  # noqa: S105 - for tests
REQUIRED = ServerSettings(require_sign_in=True)


def client_at(desk, settings=REQUIRED, address="10.0.0.7", **more):
    app = create_app(desk, settings, GuardedDoor(desk.access, settings))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 1234))
    return httpx.AsyncClient(transport=transport, base_url="https://127.0.0.1/api/v1", **more)


async def who(client, **headers):
    answer = await client.get("/session", headers=headers)
    return answer.json().get("name", answer.json().get("code"))


# --- tokens


async def test_a_token_is_known_until_it_is_revoked(desk):
    made = await desk.access.create_token("ci", rights_of("operator", ["orders"]))
    client = client_at(desk)
    for scheme in ("Bearer", "bearer"):
        assert await who(client, authorization=f"{scheme} {made.secret}") == "token:ci"
    await desk.access.revoke_token(made.info.id)
    assert await who(client, authorization=f"Bearer {made.secret}") == "sign-in-required"


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer x", "Basic YTpi", "Bearer " + "x" * 10_000, "Bearer ü"])
async def test_what_is_no_token_is_refused_with_how_to_send_one(desk, given):
    answer = await client_at(desk).get("/session", headers={"authorization": given.encode("latin-1")})
    assert (answer.status_code, answer.json()["code"]) == (401, "sign-in-required")
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_wrong_token_is_refused_also_where_none_is_needed(desk):
    assert await who(client_at(desk, ServerSettings()), authorization="Bearer none") == "sign-in-required"


# --- this machine


async def test_without_required_sign_in_this_machine_is_its_user(desk):
    client = client_at(desk, ServerSettings())
    assert (await client.get("/session")).json()["kind"] == "local"
    assert await who(client_at(desk)) == "sign-in-required"


async def test_a_request_that_was_passed_on_is_not_of_this_machine(desk):
    client = client_at(desk, ServerSettings())
    for name in ("x-forwarded-for", "forwarded", "x-real-ip"):
        assert await who(client, **{name: "10.1.1.1"}) == "sign-in-required"


async def test_an_open_door_has_a_name_for_the_trail():
    request = httpx.Request("GET", "http://localhost")
    scope = {"type": "http", "headers": [], "client": ("::1", 1)}
    from starlette.requests import HTTPConnection

    assert request is not None
    assert (await OpenDoor("kim").admit(HTTPConnection(scope))).actor == "kim (::1)"


# --- proxies

PROXIED = ServerSettings(
    require_sign_in=True, trusted_proxies=("10.0.0.0/24",), proxy_user_header="X-Forwarded-User", proxy_role="operator"
)


async def test_a_trusted_proxy_says_who_it_is_and_where_from(desk):
    client = client_at(desk, PROXIED)
    answer = await client.put(
        "/queues/orders", json={}, headers={"x-forwarded-user": "ann", "x-forwarded-for": "1.2.3.4, 10.0.0.9"}
    )
    assert answer.status_code == 403
    (entry, *_) = await desk.recovery.trail()
    assert entry.actor == "ann (1.2.3.4)"


async def test_the_header_of_a_proxy_from_elsewhere_counts_for_nothing(desk):
    assert await who(client_at(desk, PROXIED, "10.0.1.7"), **{"x-forwarded-user": "ann"}) == "sign-in-required"
    unnamed = replace(PROXIED, proxy_user_header="")
    assert await who(client_at(desk, unnamed), **{"x-forwarded-user": "ann"}) == "sign-in-required"


async def test_an_address_that_a_client_makes_up_does_not_count(desk):
    made = await desk.access.create_token("ci", rights_of("viewer"))
    client = client_at(desk, REQUIRED, "10.9.9.9")
    await client.put(
        "/queues/orders", json={}, headers={"authorization": f"Bearer {made.secret}", "x-forwarded-for": "1.2.3.4"}
    )
    (entry, *_) = await desk.recovery.trail()
    assert entry.actor == "token:ci (10.9.9.9)"


# --- sessions


@pytest.fixture
async def signed_in(desk):
    await desk.access.add_user("ann", PASSWORD, rights_of("admin"))
    client = client_at(desk)
    answer = await client.post("/session", json={"name": "ann", "password": PASSWORD})
    assert answer.status_code == 200, answer.text
    client.csrf = answer.json()["csrf"]
    client.answer = answer
    return client


async def test_a_session_is_known_by_its_cookie(signed_in):
    assert await who(signed_in) == "ann"
    cookie = signed_in.answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert cookie.startswith("redrive=")


async def test_with_tls_the_cookie_is_bound_to_this_host(desk):
    await desk.access.add_user("ann", PASSWORD, rights_of("admin"))
    client = client_at(desk, replace(REQUIRED, public_url="https://redrive.example"))
    answer = await client.post("/session", json={"name": "ann", "password": PASSWORD})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-redrive=")
    assert "Secure" in cookie
    assert "Path=/" in cookie
    assert await who(client) == "ann"


async def test_a_change_in_a_session_needs_its_csrf_token(signed_in):
    for headers in ({}, {CSRF_HEADER: ""}, {CSRF_HEADER: "wrong"}):
        answer = await signed_in.put("/queues/orders", json={}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    answer = await signed_in.put("/queues/orders", json={}, headers={CSRF_HEADER: signed_in.csrf})
    assert answer.status_code == 200
    assert (await signed_in.get("/session")).json()["csrf"] == signed_in.csrf


async def test_a_page_of_another_site_changes_nothing(desk):
    client = client_at(desk, ServerSettings())
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ):
        answer = await client.put("/queues/orders", json={}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "cross-site")
    for headers in ({"sec-fetch-site": "same-origin"}, {"origin": "https://127.0.0.1"}, {}):
        assert (await client.put("/queues/orders", json={}, headers=headers)).status_code == 200


async def test_after_signing_out_the_cookie_is_worth_nothing(signed_in):
    secret = signed_in.cookies["redrive"]
    answer = await signed_in.delete("/session", headers={CSRF_HEADER: signed_in.csrf})
    assert answer.json() == {"ended": True}
    signed_in.cookies.set("redrive", secret)
    assert await who(signed_in) == "sign-in-required"


async def test_a_failed_sign_in_is_the_same_whatever_was_wrong_and_is_written_down(desk):
    await desk.access.add_user("ann", PASSWORD, rights_of("admin"))
    client = client_at(desk)
    answers = [
        await client.post("/session", json={"name": name, "password": password})
        for name, password in (("ann", "wrong"), ("bob", PASSWORD))
    ]
    assert [each.status_code for each in answers] == [401, 401]
    assert answers[0].text == answers[1].text
    assert [(each.action, each.actor, each.outcome) for each in await desk.recovery.trail()] == [
        ("own.sign-in", "bob (10.0.0.7)", "refused: sign-in-required"),
        ("own.sign-in", "ann (10.0.0.7)", "refused: sign-in-required"),
    ]


async def test_after_too_many_attempts_the_answer_says_when_to_come_back(desk):
    client = client_at(desk)
    for _ in range(10):
        await client.post("/session", json={"name": "ann", "password": "wrong"})
    answer = await client.post("/session", json={"name": "ann", "password": "wrong"})
    assert (answer.status_code, answer.json()["code"]) == (429, "too-many-attempts")
    assert 1 <= int(answer.headers["retry-after"]) <= 901
