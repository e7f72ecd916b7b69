# SPDX-License-Identifier: MIT
"""Where a thing has its page: addresses of pages, made of subjects such as ``queue:orders``. Pure: no I/O, no clock."""

from typing import Final
from urllib.parse import quote, urlencode

_PAGES: Final = {
    "queue": "/queues/{}",
    "topic": "/topics/{}",
    "route": "/routes/{}",
    "pipeline": "/pipelines/{}",
    "operation": "/operations/{}",
    "failure": "/failed/{}",
    "message": "/journey/{}",
    "task": "/journey/{}",
}
_OTHERS: Final = {"asides": "/failed/asides", "services": "/operations"}


def link(path: str, **query: object) -> str:
    """Return an address with a query; what is None or empty is left out."""
    given = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(given, errors='surrogatepass')}" if given else path


def named(path: str, name: object) -> str:
    """Return an address with a name in it: ``named("/queues/{}", "a/b")`` is ``/queues/a%2Fb``."""
    return path.replace("{}", quote(str(name), safe="", errors="surrogatepass"))


def page_of(subject: str) -> str:
    """Return the page of a subject; the trail of the subject if it has no page of its own."""
    kind, _, name = subject.partition(":")
    if kind == "group" and name:
        return link("/failed/list", q=f"group:{name}")
    if kind in _PAGES and name:
        return named(_PAGES[kind], name)
    return _OTHERS.get(kind) or link("/audit", subject=subject)
