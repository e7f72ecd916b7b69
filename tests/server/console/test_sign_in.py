# SPDX-License-Identifier: MIT
"""Signing in and out with forms."""

from tests.server.console.html import page_of


async def test_signing_in_goes_to_the_page_that_was_wanted(signed_in):
    browser, _ = signed_in
    answer = await browser.post("/login", data={"name": "ann", "password": "a long password", "next": "/more?x=1"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/more?x=1")
    assert "ann" in page_of(await browser.get("/more")).text


async def test_signing_in_leads_nowhere_else(signed_in):
    browser, _ = signed_in
    for elsewhere in ("https://example.com", "//example.com", "/\\example.com"):
        answer = await browser.post("/login", data={"name": "ann", "password": "a long password", "next": elsewhere})
        assert answer.headers["location"] == "/"


async def test_one_answer_for_every_failure(signed_in):
    browser, _ = signed_in
    answers = [
        await browser.post("/login", data={"name": name, "password": password})
        for name, password in (("ann", "another"), ("nobody", "a long password"))
    ]
    assert {answer.status_code for answer in answers} == {401}
    said = [page_of(answer).text for answer in answers]
    assert said[0] == said[1]


async def test_a_form_without_the_token_of_the_session_is_refused(signed_in):
    browser, csrf = signed_in
    refused = await browser.post("/logout", data={})
    assert refused.status_code == 403
    assert "You may not do this" in page_of(refused).text
    assert (await browser.post("/logout", data={"csrf": "x" * len(csrf)})).status_code == 403
    assert (await browser.get("/more")).status_code == 200
    done = await browser.post("/logout", data={"csrf": csrf})
    assert (done.status_code, done.headers["location"]) == (303, "/login")
    browser.cookies.clear()
    assert (await browser.get("/more")).status_code == 303


async def test_the_token_of_the_session_is_in_the_forms_of_a_page(signed_in):
    browser, csrf = signed_in
    page = page_of(await browser.get("/more"))
    assert {form.fields["csrf"] for form in page.forms if form.method == "post"} == {csrf}
