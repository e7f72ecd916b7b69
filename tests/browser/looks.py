# SPDX-License-Identifier: MIT
"""The pages there are, each by the address that a link has, and what axe says about one."""

import re
from collections import Counter
from pathlib import Path

import httpx

from redrive.server.console import ROUTERS
from tests.browser.conftest import NARROW, WIDE
from tests.server.console.html import Page

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
_RUN = """async () => {
    const found = await axe.run(document, { resultTypes: ["violations"] });
    return found.violations.map((each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => node.html).join(" ")}`);
}"""
LOOKS = ((WIDE, "light"), (NARROW, "dark"), (WIDE, "dark"), (NARROW, "light"))
"""How a page can be looked at: both sizes, both themes."""

PAGES = sorted(
    route.path
    for router in ROUTERS
    for route in router.routes
    if "GET" in route.methods and not route.path.startswith(("/static", "/favicon"))
)
"""Every page of the console, with names in braces."""

FILES = ("/export", "/download", "/body")
"""What is saved, not looked at."""

START = (
    *("/", "/more", "/login", "/jump?q=o", "/failed/archive?q=queue:payments", "/failed/resolve?q=queue:payments"),
    *("/failed/restore?q=status:archived", "/queues/invoices/resubmit"),
)
"""Where following links begins: buttons lead to some pages, with what is ticked."""

_MOST = 400


async def addresses(base, start=START):
    """Return an address of every page, by following links."""
    patterns = {path: re.compile(re.sub(r"\\{[^}]*\\}", "[^/?]+", re.escape(path)) + r"(\?.*)?$") for path in PAGES}
    found, todo, seen, looked_at = {}, list(start), set(), Counter()
    async with httpx.AsyncClient(base_url=base, headers={"accept": "text/html"}, timeout=60) as client:
        while todo and len(seen) < _MOST:
            address = todo.pop(0)
            path = next((path for path in PAGES if "{" not in path and patterns[path].fullmatch(address)), None)
            path = path or next((path for path in PAGES if patterns[path].fullmatch(address)), None)
            if path is None or address in seen or looked_at[path] > 1:
                continue  # two of a kind are enough: what one has no link to, the other may
            seen.add(address)
            answer = await client.get(address)
            looked_at[path] += answer.is_success
            todo += [answer.headers["location"]] if answer.has_redirect_location else []
            if answer.status_code == httpx.codes.OK and answer.headers["content-type"].startswith("text/html"):
                found.setdefault(path, address)
                shown = Page(answer.text)
                forms = [form.action for form in shown.forms if form.method == "get"]
                todo += [link.partition("#")[0] for link in [*shown.links, *forms] if link.startswith("/")]
    return found


async def violations(page, looks):
    """Return what axe finds on a page, at some sizes and in some themes."""
    found = []
    await page.evaluate(AXE)
    for size, theme in looks:
        await page.emulate_media(color_scheme=theme)
        await page.set_viewport_size(size)
        found += [f"{size['width']} {theme} {each}" for each in await page.evaluate(_RUN)]
    return found
