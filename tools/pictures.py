# SPDX-License-Identifier: MIT
"""Takes pictures of every page of the console, at two sizes and in both themes: ``python -m tools.pictures``.

The store has something of every layer in it, and is the one that the tests of the pages have. Pictures are named after
the address of their page: ``routes-big-orders-wide-dark.png``. ``--readme`` takes the one that the README shows.
``--accept`` takes no picture: those that differed in tests/browser/test_pictures.py are the ones to compare with from
now on.
"""

import argparse
import asyncio
import os
import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.async_api import Browser, async_playwright

from tests.browser.chromium import FLAGS, program
from tests.browser.conftest import NARROW, WIDE, opened, served
from tests.browser.looks import FILES, addresses
from tests.browser.store import fill
from tests.browser.test_pictures import NEW, STORED

SIZES = {"wide": WIDE, "narrow": NARROW}
THEMES = ("light", "dark")
README = Path(__file__).parents[1] / "docs" / "console.png"


def accept() -> None:
    """Let the pictures that differed be those that tests compare with."""
    for found in sorted(NEW.glob("*.png")):
        shutil.move(found, STORED / found.name)
        print(STORED / found.name)


async def main(folder: Path, only: str, base: str | None, *, readme: bool) -> None:
    """Take the pictures.

    Args:
        folder: where they go.
        only: a pattern of the addresses to take; empty: all.
        base: the address of a server that runs already; None: one is started.
        readme: whether only the picture of the README is taken.
    """
    async with async_playwright() as playwright:
        chrome = await playwright.chromium.launch(
            executable_path=program(), args=list(FLAGS), chromium_sandbox=os.geteuid() != 0
        )
        if base is not None:
            await take(chrome, base, folder, only, readme=readme)
            return
        with TemporaryDirectory() as place:
            url = f"sqlite:///{place}/shop.db"
            async with opened(url) as desk:
                await fill(desk, 120)
            async with served(url, operations=False, ingest=False, routes=False, pipelines=False) as started:
                await take(chrome, started, folder, only, readme=readme)


async def take(chrome: Browser, base: str, folder: Path, only: str, *, readme: bool) -> None:
    """Take pictures of the pages of a server."""
    if readme:
        await shoot(chrome, f"{base}/", "wide", "light", README, full_page=False)
        return
    found = await addresses(base)
    for path, address in sorted(found.items()):
        if path.endswith(FILES) or not re.search(only, address):
            continue
        name = re.sub(r"[^a-zA-Z0-9]+", "-", address.partition("?")[0]).strip("-") or "overview"
        for size in SIZES:
            for theme in THEMES:
                await shoot(chrome, f"{base}{address}", size, theme, folder / f"{name}-{size}-{theme}.png")
        print(address)


async def shoot(chrome: Browser, address: str, size: str, theme: Any, file: Path, *, full_page: bool = True) -> None:  # noqa: ANN401 - Playwright names them
    """Take a picture of a page when its letters are there."""
    context = await chrome.new_context(
        viewport=SIZES[size], color_scheme=theme, timezone_id="Europe/Berlin", reduced_motion="reduce"
    )
    await context.add_cookies([{"name": "redrive-zone", "value": "Europe/Berlin", "url": address}])
    page = await context.new_page()
    await page.goto(address)
    await page.evaluate("document.fonts.ready")
    await page.screenshot(path=file, full_page=full_page)
    await context.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("pictures"), help="where they go")
    parser.add_argument("--only", default="", help="a pattern of the addresses to take")
    parser.add_argument("--server", help="the address of a server that runs already")
    parser.add_argument("--readme", action="store_true", help="take the picture of the README alone")
    parser.add_argument("--accept", action="store_true", help="let those that differed in a test be the right ones")
    given = parser.parse_args()
    if given.accept:
        accept()
        sys.exit()
    given.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(given.folder, given.only, given.server, readme=given.readme))
