# SPDX-License-Identifier: MIT
"""Every page and form of the console, and everybody who could ask: made of the routes, so that none is forgotten.

Who may look at a page or send a form is what the action of its route says; no page says it for itself.
"""

import re

import httpx
import pytest
from fastapi.routing import APIRoute

from redrive.access import ACTIONS, Reach, rights_of
from redrive.server import ServerSettings, create_app
from redrive.server.console import ROUTERS
from redrive.server.door import GuardedDoor
from tests.server.console.conftest import BROWSER, HOSTILE

SETTINGS = ServerSettings(require_sign_in=True)
PASSWORD = "a long password"  # noqa: S105 - of nothing but a test
PEOPLE = {
    "viewer": rights_of("viewer"),
    "operator": rights_of("operator"),
    "admin": rights_of("admin", may_see_bodies=True),
    "limited": rights_of("admin", ["elsewhere"]),
}
PUBLIC = {("GET", "/login"), ("POST", "/login")}
VALUES = {"number": "1", "id": "0" * 32}
NEEDED = {"/hold": "destination=lab", "/send-now": "destination=lab"}
"""What pages need in their address."""

ROUTES = sorted(
    (
        (method, route)
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute) and not route.path.startswith(("/static/", "/favicon"))
        for method in route.methods
    ),
    key=lambda each: (each[1].path, each[0]),
)


def action_of(route):
    """Return the action of a page; None: it is for those who have not signed in."""
    extra = route.openapi_extra or {}
    return None if extra.get("x-redrive-public") else ACTIONS[extra["x-redrive-action"]]


def address_of(path):
    query = next((each for end, each in NEEDED.items() if path.endswith(end)), "")
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: VALUES.get(found[1], "none"), path) + (f"?{query}" if query else "")


def may(rights, action):
    if not rights.role.includes(action.role):
        return False
    return rights.queues is None or action.reach is not Reach.WHOLE


@pytest.fixture
async def people(desk):
    """Return the browser of everybody, and the token of their forms; nobody has signed in as none."""
    app = create_app(desk, SETTINGS, GuardedDoor(desk.access, SETTINGS))
    made = {}
    for name, rights in {**PEOPLE, "none": None}.items():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("10.0.0.7", 1234))
        browser = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8484", headers=BROWSER)
        csrf = ""
        if rights is not None:
            await desk.access.add_user(name, PASSWORD, rights)
            await browser.post("/login", data={"name": name, "password": PASSWORD, "next": "/"})
            csrf = (await browser.get("/api/v1/session", headers={"accept": "application/json"})).json()["csrf"]
        made[name] = browser, csrf
    return made


async def test_everybody_sees_and_does_what_the_action_of_a_page_says(people):
    wrong = []
    for method, route in ROUTES:
        action = action_of(route)
        if action is None or route.path == "/logout":
            continue
        for name, rights in PEOPLE.items():
            browser, csrf = people[name]
            data = {"csrf": csrf} if method == "POST" else None
            answer = await browser.request(method, address_of(route.path), data=data)
            is_refused = answer.status_code == 403
            is_right = is_refused if not may(rights, action) else name == "limited" or not is_refused  # of that queue
            is_valid = answer.status_code not in (401, 500) and (method == "POST" or answer.status_code != 422)
            if not (is_right and is_valid):
                wrong.append((name, method, route.path, answer.status_code))
    assert wrong == []


async def test_nobody_sees_anything_before_signing_in(people):
    browser, _ = people["none"]
    for method, route in ROUTES:
        if action_of(route) is not None:
            answer = await browser.request(method, address_of(route.path), data={} if method == "POST" else None)
            found = answer.status_code, answer.headers.get("location", "").partition("?")[0]
            assert found == (303, "/login"), (method, route.path)


async def test_no_form_is_taken_without_the_token_of_the_session(people):
    browser, csrf = people["admin"]
    for method, route in ROUTES:
        if method == "POST" and action_of(route) is not None:
            for wrong in ({}, {"csrf": ""}, {"csrf": HOSTILE}, {"csrf": f"{csrf}x"}):
                answer = await browser.post(address_of(route.path), data=wrong)
                assert answer.status_code == 403, (route.path, wrong)


def test_every_page_has_an_action_and_forms_change_something():
    assert {(method, route.path) for method, route in ROUTES if action_of(route) is None} == PUBLIC
    for method, route in ROUTES:
        if (action := action_of(route)) is not None:
            assert method in ("GET", "POST")
            assert action.is_change == (method == "POST"), (method, route.path)
