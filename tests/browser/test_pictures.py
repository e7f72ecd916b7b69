# SPDX-License-Identifier: MIT
"""Pictures of the main pages beside those that people have looked at: what looks otherwise is noticed.

Pictures are compared in squares of some pixels, so that letters that are drawn a little otherwise make no difference,
and a part that is gone, moved or of another colour does. A picture that differs is left in ``pictures/``;
``python -m tools.pictures --accept`` makes it the one to compare with, after you have looked at it.
"""

import base64
from pathlib import Path

import pytest
import pytest_asyncio

from tests.browser.conftest import NARROW, WIDE
from tests.browser.still import still_life

pytestmark = pytest.mark.asyncio(loop_scope="session")

STORED = Path(__file__).parent / "stills"
NEW = Path(__file__).parents[2] / "pictures" / "stills"
PAGES = ("overview", "groups", "sheet", "failure", "operation", "journey")
LOOKS = {"wide-light": (WIDE, "light"), "narrow-dark": (NARROW, "dark")}
SCALE = 0.5
SQUARE = 8
"""Pixels of a picture that are compared as one."""

MOST = 24
"""How much one of red, green and blue, from 0 to 255, may differ on average in a square."""

SHARE = 0.004
"""The share of squares that may differ more: a line of text that is a little longer."""

_COMPARE = """async ([one, other, square, most]) => {
    const load = async (data) => {
        const image = new Image();
        image.src = `data:image/png;base64,${data}`;
        await image.decode();
        return image;
    };
    const [a, b] = [await load(one), await load(other)];
    if (a.width !== b.width || a.height !== b.height) return `${a.width} x ${a.height}, not ${b.width} x ${b.height}`;
    const [w, h] = [Math.ceil(a.width / square), Math.ceil(a.height / square)];
    const squares = (image) => {
        const canvas = new OffscreenCanvas(w, h), context = canvas.getContext("2d");
        context.imageSmoothingQuality = "high"; context.drawImage(image, 0, 0, w, h);
        return context.getImageData(0, 0, w, h).data;
    };
    const [p, q] = [squares(a), squares(b)];
    let differ = 0;
    for (let i = 0; i < p.length; i += 4) differ += [0, 1, 2].some((c) => Math.abs(p[i + c] - q[i + c]) > most);
    return differ / (w * h);
}"""
_PAUSED = "if (location.protocol === 'http:') localStorage.setItem('redrive-paused', '1');"
_SETTLED = """() => {
    document.querySelectorAll(".where").forEach((each) => { each.firstChild.textContent = "src/shop/payments.py"; });
    document.querySelectorAll(".facts dd").forEach((each) => {
        if (each.textContent.includes("host")) each.textContent = "worker, host shop-1";
    });
    return document.fonts.ready.then(() => true);
}"""


async def difference(page, one, other):
    """Return the share of squares in which two pictures differ, or why they cannot be compared."""
    data = [base64.b64encode(each).decode() for each in (one, other)]
    return await page.evaluate(_COMPARE, [*data, SQUARE, MOST])


async def picture(page):
    """Take a picture of a page; what differs from machine to machine is the same in it."""
    await page.evaluate(_SETTLED)
    return await page.screenshot(animations="disabled", caret="hide")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def still(tmp_path_factory):
    async with still_life(f"sqlite:///{tmp_path_factory.mktemp('still')}/still.db") as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def look(request, still, new_context):
    """A browser at the time of the store, of one size and in one theme."""
    base, _, now = still
    size, theme = LOOKS[request.param]
    context = await new_context(viewport=size, color_scheme=theme, device_scale_factor=SCALE)
    await context.clock.set_fixed_time(now)
    await context.add_init_script(_PAUSED)  # nothing changes before the picture is taken
    await context.add_cookies([{"name": "redrive-zone", "value": "Europe/Berlin", "url": base}])
    return await context.new_page()


@pytest.mark.parametrize("look", LOOKS, indirect=True)
async def test_the_main_pages_look_as_they_did(look, request, still, page):
    base, addresses, _ = still
    differ = {}
    for name in PAGES:
        file = f"{name}-{request.node.callspec.params['look']}.png"
        await look.goto(f"{base}{addresses[name]}")
        taken = await picture(look)
        known = (STORED / file).read_bytes() if (STORED / file).exists() else None
        found = "is not known yet" if known is None else await difference(page, taken, known)
        if isinstance(found, str) or found > SHARE:
            NEW.mkdir(parents=True, exist_ok=True)
            (NEW / file).write_bytes(taken)
            differ[file] = found
    assert differ == {}, "look at them in pictures/stills; python -m tools.pictures --accept takes them"
    await _a_part_that_is_gone_is_noticed(look, taken, page)


async def _a_part_that_is_gone_is_noticed(look, known, page):
    assert await difference(page, known, known) == 0
    await look.get_by_role("region").first.evaluate("each => each.remove()")
    assert await difference(page, known, await picture(look)) > 10 * SHARE
