# SPDX-License-Identifier: MIT
"""Every page in a real browser: it loads without an error, and people who see little or nothing can use it."""

import tomllib
from hashlib import sha256
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser import chromium
from tests.browser.conftest import NARROW, WIDE, Troubles, both_databases, open_context, opened, served
from tests.browser.looks import FILES, LOOKS, PAGES, addresses, violations
from tests.browser.store import PASSWORD, fail, fill, set_up

pytestmark = pytest.mark.asyncio(loop_scope="session")

FRAMES = ("/", "/login", "/failed", "/operations/{number:int}")
"""Pages that have all that others are made of: axe looks at them at both sizes and in both themes.

It looks at the others in one of these ways, each at another, and in all of them in the long version.
"""

SHOWN = [path for path in PAGES if not path.endswith(FILES)]

VENDOR = Path(__file__).parent / "vendor"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(tmp_path_factory):
    """A server over a store in which every layer has something; yield its address, and those of its pages."""
    url = f"sqlite:///{tmp_path_factory.mktemp('shop')}/shop.db"
    async with opened(url) as desk:
        await fill(desk)
    async with served(url, operations=False, ingest=False, routes=False, pipelines=False) as base:
        yield base, await addresses(base)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def window(chrome):
    """One page for all tests, as a new one takes longer than most of them; and what it reports."""
    troubles = Troubles()
    context = await open_context(chrome, troubles)
    yield await context.new_page(), troubles
    await context.close()


@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.torture)])
@pytest.mark.parametrize("path", SHOWN)
async def test_a_page_loads_without_an_error_and_axe_finds_nothing(path, everywhere, shop, window):
    (base, found), (page, troubles) = shop, window
    assert path in found, f"no link leads to {path}: let a page link to it, or tests/browser/store.py have one"
    answer = await page.goto(f"{base}{found[path]}")
    assert answer.ok
    every = LOOKS if everywhere or path in FRAMES else [LOOKS[SHOWN.index(path) % len(LOOKS)]]
    assert await violations(page, every) == []
    for size in (WIDE, NARROW):
        await page.set_viewport_size(size)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            "it has to be scrolled sideways"
        )
    assert troubles == []


@pytest.mark.parametrize("path", ["/", "/failed", "/queues"])
async def test_an_empty_store_fits_on_a_phone_too(path, serve, url, page):
    await page.goto(f"{await serve(url)}{path}")
    assert await violations(page, [LOOKS[1]]) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it has to be scrolled sideways"


@both_databases
async def test_people_sign_in_and_see_the_overview(url, desk, serve, page, troubles):
    troubles.expected = ("401", "422")
    await fail(desk, 5)
    await set_up(desk)
    base = await serve(url, require_sign_in=True)
    await page.goto(f"{base}/more")
    await page.get_by_label("Name").fill("ana")
    await page.get_by_label("Password").fill("another password")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_have_text("name or password is wrong.")
    await page.get_by_label("Name").fill("ana")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{base}/more")
    await page.goto(f"{base}/")
    await expect(page.get_by_role("region", name="Needs attention")).to_be_visible()
    await expect(page.locator("[data-live-word]")).to_have_text("Live")
    assert await page.evaluate("window.violations") == []


async def test_an_error_in_a_page_is_noticed(page, troubles):
    await page.goto("about:blank")
    await page.evaluate("console.error('odd')")
    assert [each.partition(" at ")[0] for each in troubles] == ["odd"]
    troubles.clear()


@pytest.mark.parametrize(("ci", "outcome"), [("1", "failed"), ("", "skipped")])
async def test_a_missing_browser_fails_in_ci_and_is_a_loud_skip_elsewhere(monkeypatch, ci, outcome):
    from tests.browser.conftest import chromium_path

    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(chromium, "program", _none)
    expected = pytest.fail.Exception if outcome == "failed" else pytest.skip.Exception
    with pytest.raises(expected, match="chromium"):
        chromium_path.__wrapped__()


def _none():
    raise chromium.NoChromium("no chromium in PATH")


async def test_what_tests_have_from_others_is_what_the_manifest_names():
    manifest = tomllib.loads((VENDOR / "manifest.toml").read_text())
    named = {name: each["sha256"] for part in manifest.values() for name, each in part["files"].items()}
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir() if path.suffix != ".toml"}
    assert found == named
