# SPDX-License-Identifier: MIT
"""URLs of databases: which part may be shown, and what is wrong with one. Pure: no I/O.

A URL may contain a password, in its place or, by mistake, anywhere else. So no part of a URL that could contain one is
ever in an error, not even a part that looks harmless: it may be half of a password with a slash in it.
"""

import re
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redrive.errors import InvalidSetting

DATABASES = (
    "must be sqlite:///relative.db, sqlite:////absolute.db, sqlite:///:memory: or postgresql://user@host/database"
)
FORMS = (
    "must be sqlite:///relative.db, sqlite:////absolute.db, sqlite:///:memory:, postgresql://user@host/database "
    "or nats://host,host,host/namespace"
)
_ENCODE = (
    "cannot be read; in user and password, quote all but letters and digits: urllib.parse.quote(password, safe='')"
)
_ROOM_FOR_A_PASSWORD = re.compile(r"[:@?=&#\s]")
_NAME = re.compile(r"[A-Za-z_]{1,40}")
_PORT = re.compile(r":([^\]]*)$")


def shown(url: object) -> object:
    """Return a URL as an error may show it: only its scheme, if it could contain a password."""
    text = url.decode(errors="replace") if isinstance(url, bytes) else url
    if not isinstance(text, str):
        return text
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(/*)", text)
    if not _ROOM_FOR_A_PASSWORD.search(text[found.end() :] if found else text):
        return url
    return f"{found[1]}:{found[2]}…" if found and found[2] else "…"


def wrong(setting: str, url: object, problem: str) -> InvalidSetting:
    """Return the error for a URL that cannot be used."""
    return InvalidSetting(setting, shown(url), problem)


def parts_of(setting: str, url: object) -> SplitResult:
    """Return the parts of a URL whose scheme is one of an engine; refuse any other with the fix."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:  # a bracket in a password
        raise wrong(setting, url, _ENCODE) from None
    if parts is None:
        raise wrong(setting, url, FORMS)
    scheme, plus, driver = parts.scheme.partition("+")
    if plus and scheme in ("postgresql", "postgres", "sqlite"):
        raise wrong(setting, url, f"has a driver, which Redrive chooses itself; leave out +{driver}: {scheme}://…")
    if parts.scheme == "jdbc":
        raise wrong(setting, url, f"is one for Java; leave out jdbc:, and {FORMS}")
    if parts.scheme in ("http", "https"):
        raise wrong(setting, url, f"is the address of a server, and this works on a database only; it {FORMS}")
    if parts.scheme not in ("postgresql", "postgres", "sqlite", "nats", "tls"):
        raise wrong(setting, url, FORMS)
    return parts


def sqlite_path(setting: str, url: str, parts: SplitResult) -> str:
    """Return the file that a SQLite URL names."""
    path = unquote(parts.path[1:])
    if parts.username is not None or re.match(r"[^/]*:[^/]*@", path):
        raise wrong(setting, url, "has a user or a password, but a SQLite database is a file: sqlite:///orders.db")
    if parts.netloc or not path:
        raise wrong(setting, url, FORMS)
    return path


def is_in_memory(setting: str, url: object) -> bool:
    """Say whether a URL is that of a database that ends with its process, and that no other process can use."""
    parts = parts_of(setting, url)
    return parts.scheme == "sqlite" and sqlite_path(setting, str(url), parts) == ":memory:"


def options_of(setting: str, url: str, parts: SplitResult, known: tuple[str, ...], more: str = "") -> dict[str, str]:
    """Return the options after the question mark.

    Args:
        setting: the name to blame.
        url: the whole.
        parts: its parts.
        known: the options there are.
        more: other options, in words.
    """
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            which = f" {name!r}" if _NAME.fullmatch(name) else ""
            raise wrong(setting, url, f"has an unknown option{which}; there is: {more}{', '.join(known)}")
        if name in options:
            raise wrong(setting, url, f"has the option {name!r} twice")
        options[name] = value
    return options


def nats_servers(setting: str, url: str, parts: SplitResult) -> list[str]:
    """Return the addresses of the servers that a NATS URL names; a user and a password hold for all of them."""
    user, at, hosts = parts.netloc.rpartition("@")
    if "@" in parts.path or "#" in url:
        raise wrong(setting, url, _ENCODE)
    found = [host if ":" in host else f"{host}:4222" for host in hosts.split(",")]
    if not all(re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\s\[\]]+):[0-9]{1,5}", host) for host in found):
        raise wrong(setting, url, "must name its servers: nats://host:4222,host:4222,host:4222/namespace")
    return [f"{parts.scheme}://{user}{at}{host}" for host in found]


def check_postgres(setting: str, url: str, parts: SplitResult) -> None:
    """Refuse a URL that would be misread: half of a password with a slash in it would be a port."""
    if "@" in parts.path or "#" in url:
        raise wrong(setting, url, _ENCODE)
    for host in parts.netloc.rpartition("@")[2].split(","):
        port = _PORT.search(host)
        if port is None or not port[1]:
            continue
        if not port[1].isdecimal():
            raise wrong(setting, url, _ENCODE)
        if not 0 < int(port[1]) < 65_536:
            raise wrong(setting, url, "has a port that is none; it is 1 to 65535")
