# SPDX-License-Identifier: MIT
"""What holds for every page: it has a rule, it is safe, every link leads somewhere, and it works without a script."""

import re
from pathlib import Path

import httpx
import pytest

from redrive.access import ACTIONS, Role
from redrive.clock import system_clock
from redrive.server.console import ROUTERS, files
from redrive.server.health import Health
from redrive.server.process import _Front
from tests.server.console.conftest import HOSTILE
from tests.server.console.html import page_of

TEMPLATES = Path(__file__).parents[3] / "src" / "redrive" / "server" / "console" / "templates"
ROUTES = [route for router in ROUTERS for route in router.routes if not route.path.startswith(("/static", "/favicon"))]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{'/'.join(route.methods)} {route.path}")
def test_every_page_has_an_action_and_a_change_is_one(route):
    action = ACTIONS[route.openapi_extra["x-redrive-action"]]
    is_public = route.openapi_extra.get("x-redrive-public", False)
    assert is_public == (route.path == "/login")
    if not is_public:
        assert action.is_change == ("POST" in route.methods), route.path


@pytest.mark.usefixtures("seeded")
async def test_every_link_of_every_page_leads_somewhere(browser):
    todo, seen = ["/", "/login", "/more", "/jump?q=o"], set()
    while todo:
        path = todo.pop()
        if path in seen or len(seen) > 150:
            continue
        seen.add(path)
        answer = await browser.get(path)
        assert answer.status_code in (200, 303), (path, answer.text[:500])
        if answer.status_code == 303 or not answer.headers["content-type"].startswith("text/html"):
            continue
        page = page_of(answer)
        assert page.wrong == [], path
        assert len(page.ids) == len(set(page.ids)), (path, sorted(page.ids))
        gets = [form.action for form in page.forms if form.method == "get"]
        found = [link.partition("#")[0] for link in [*page.links, *gets] if not link.startswith("#")]
        assert all(link.startswith("/") and not link.startswith("//") for link in found if link), (path, found)
        todo += filter(None, found)
    assert len(seen) >= 4


async def test_files_of_a_page_are_there_and_kept_for_good(browser):
    page = page_of(await browser.get("/more"))
    for path in page.files:
        answer = await browser.get(path)
        assert answer.status_code == 200, path
        assert "immutable" in answer.headers["cache-control"], path
    css = await browser.get(next(path for path in page.files if path.endswith(".css")))
    for name in re.findall(r'url\("([^"]+)"\)', css.text):
        assert (await browser.get(f"{css.url.path.rpartition('/')[0]}/{name}")).status_code == 200, name
    other = await browser.get("/static/another/console.css")
    assert (other.status_code, other.headers["cache-control"]) == (200, "no-cache")
    assert (await browser.get("/static/another/../conftest.py")).status_code == 404


async def test_a_page_passes_its_own_policy(browser):
    answer = await browser.get("/")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


def test_no_template_leaves_anything_unescaped():
    for template in TEMPLATES.glob("*.html"):
        text = template.read_text()
        assert not re.search(r"\|\s*safe|autoescape|style=|hx-on|javascript:|Markup", text), template.name


@pytest.mark.usefixtures("seeded")
async def test_a_fragment_is_the_content_with_the_counts_of_the_frame_and_is_not_sent_twice(browser):
    asked = {"redrive-fragment": "1"}
    first = await browser.get("/more", headers=asked)
    content, _, counts = first.text.partition("<span hidden>")
    assert "<html" not in content
    whole = (await browser.get("/more")).text
    assert content.strip() in whole
    in_frame = re.findall(r'<span class="n[^"]*" data-n="([^"]+)"(?: hidden)?>([^<]*)<', whole)
    assert in_frame == re.findall(r'<b data-of="([^"]+)"[^>]*>([^<]*)<', counts) != []
    again = await browser.get("/more", headers={**asked, "if-none-match": first.headers["etag"]})
    assert (again.status_code, again.text) == (304, "")


async def test_a_page_is_not_shared_between_people(as_role):
    recent = {"cache-control": "max-age=5"}
    ann, ben = as_role(Role.VIEWER, name="ann"), as_role(Role.VIEWER, name="ben-the-other")
    await ann.get("/more", headers=recent)
    assert "ben-the-other" in (await ben.get("/more", headers=recent)).text


async def test_whoever_is_not_signed_in_is_sent_to_the_form_and_back(desk):
    from redrive.server import ServerSettings
    from redrive.server.door import GuardedDoor
    from tests.server.console.conftest import browser_of

    settings = ServerSettings(require_sign_in=True)
    browser = browser_of(desk, GuardedDoor(desk.access, settings), settings)
    answer = await browser.get("/more?a=b")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fmore%3Fa%3Db")
    programs = await browser.get("/more", headers={"accept": "application/json"})
    assert (programs.status_code, programs.json()["code"]) == (401, "sign-in-required")


async def test_an_error_is_a_page_for_people_and_json_for_programs(browser):
    answer = await browser.get("/nowhere")
    assert answer.status_code == 404
    assert "This is not here" in page_of(answer).text
    assert (await browser.get("/nowhere", headers={"accept": "*/*"})).json()["status"] == 404
    assert (await browser.get("/api/v1/nowhere")).json()["status"] == 404


async def test_hostile_words_in_an_address_are_shown_and_never_run(browser):
    answer = await browser.get("/jump", params={"q": HOSTILE})
    assert "<script>alert" not in answer.text
    assert "\u202e" not in answer.text
    assert "\\u202e" in answer.text


@pytest.mark.parametrize(("path", "accept", "status", "said"), [
    ("/failed", "text/html", 503, "The database does not answer"),
    ("/failed", "*/*", 503, "engine-unavailable"),
    ("/api/v1/failures", "text/html", 503, "engine-unavailable"),
    (files.address("console.css"), "*/*", 200, "Redrive console"),
    ("/static/x/nothing.css", "*/*", 404, ""),
])  # fmt: skip
async def test_while_the_store_is_away_people_get_a_page_and_programs_json(path, accept, status, said):
    front = _Front(Health(system_clock))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://127.0.0.1") as client:
        answer = await client.get(path, headers={"accept": accept})
    assert answer.status_code == status
    assert said in answer.text


async def test_the_page_of_keys_names_them(browser):
    assert "Pause live updates" in page_of(await browser.get("/help")).text
