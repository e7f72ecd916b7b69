# SPDX-License-Identifier: MIT
"""What the URL, the headers and the key of a request may be. Pure: no I/O, no clock, no randomness."""

import hashlib
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import SplitResult, urlsplit

from redrive.errors import InvalidSetting

_HIDDEN: Final = "***"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LONGEST_KEY: Final = 255


def check_url(name: str, url: str) -> None:
    """See that requests can be sent to a URL, and that it has no password.

    Raises:
        InvalidSetting: it is none, or has what belongs into a header.
    """
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidSetting(name, url, "must have no blanks and ASCII only: write other characters as %xx")
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole, parts = False, SplitResult("", "", "", "", "")
    if parts.username is not None or parts.password is not None:
        allowed = "must have no password: write it as headers = {Authorization = 'env:NAME'}"
        raise InvalidSetting(name, f"{parts.scheme}://{_HIDDEN}@{parts.hostname}", allowed)
    if not is_whole or parts.fragment:
        raise InvalidSetting(name, url, "must begin with http:// or https:// and a host, and have no #")


def check_header_names(names: Iterable[str], ours: frozenset[str]) -> None:
    """See that headers can have these names, and that none of them is written by the sender itself.

    Raises:
        InvalidSetting: one of them cannot be sent.
    """
    for name in names:
        if not _TOKEN.fullmatch(name) or name.lower() in ours:
            raise InvalidSetting(
                "headers", name, f"must be the name of a header, and none of: {', '.join(sorted(ours))}"
            )


def check_header_values(headers: Iterable[tuple[str, str]]) -> None:
    """See that headers can have these values. The error does not show them.

    Raises:
        InvalidSetting: one of them cannot be sent.
    """
    for name, value in headers:
        if not (value.isascii() and value.isprintable()):
            raise InvalidSetting(f"headers.{name}", _HIDDEN, "must be printable ASCII")


def server_of(url: str) -> str:
    """Return scheme, host and port of a URL: what is down when one URL there is."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or _DEFAULT_PORTS[parts.scheme]}"


def sendable_key(key: str) -> str:
    """Return a key as a header can have it: itself, or its hash if it is too long or no plain ASCII."""
    is_plain = key.isascii() and key.isprintable() and " " not in key
    return key if is_plain and len(key) <= _LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()
