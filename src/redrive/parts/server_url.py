# SPDX-License-Identifier: MIT
"""URLs of servers outside: which of them a part may have, and what of them may be shown.

A URL may hold a password. Write ``env:NAME`` instead, and the URL is read from the environment when the part is opened:
then it is neither in files nor in the store.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redrive import connection_url
from redrive.errors import InvalidSetting
from redrive.parts.secret import is_in_environment, variable_value

_SECRET: Final = re.compile("pass|token|secret|key", re.IGNORECASE)
_HIDDEN: Final = "…"


@dataclass(frozen=True, slots=True)
class ServerUrlSetting:
    """A URL, or ``env:NAME``.

    Attributes:
        schemes: the schemes that it may have.
        port: the port of a URL without one.
        example: one that is right.
        has_several: whether there may be several, with commas between them.
    """

    schemes: tuple[str, ...]
    port: int
    example: str
    has_several: bool = False

    def checked(self, name: str, value: object) -> str:
        """Return it."""
        if isinstance(value, str) and is_in_environment(value):
            return value
        for each in value.split(",") if isinstance(value, str) and self.has_several else [value]:
            self._check(name, each)
        return str(value)

    def resolved(self, name: str, url: str, environ: Mapping[str, str] | None = None) -> str:
        """Return the URL itself, which may be in a variable of the environment.

        Raises:
            InvalidSetting: there is no such variable, this process may not read it, or it has no URL.
        """
        if not is_in_environment(url):
            return url
        variable, found = variable_value(name, url, environ)
        if not found:
            raise InvalidSetting(name, url, f"the environment variable {variable} is not set; set it to {self.example}")
        return self.checked(f"{name} in {variable}", found)

    def server(self, url: str) -> str:
        """Return the host and the port of the first URL, or the name of the variable it is in."""
        if is_in_environment(url):
            return url
        parts = urlsplit(url.split(",", maxsplit=1)[0] if self.has_several else url)
        return f"{parts.hostname}:{parts.port or self.port}" if parts.hostname else parts.path

    def _check(self, name: str, url: object) -> None:
        allowed = f"must be {self.example}, or env:NAME to read it from the environment"
        try:
            parts = urlsplit(url) if isinstance(url, str) else None
            is_right = parts is not None and parts.scheme in self.schemes and _is_whole(parts)
        except ValueError:  # a port that is no number may be half of a password
            is_right = False
        if not is_right:
            raise connection_url.wrong(name, url, allowed)


def _is_whole(parts: SplitResult) -> bool:
    has_port = parts.port is None or parts.port > 0  # reading the port raises ValueError if it is none
    return bool(
        has_port
        and "@" not in parts.path
        and "," not in f"{parts.hostname}{parts.path}"
        and (parts.hostname or (parts.scheme == "unix" and parts.path))
    )


def shown_url(url: str) -> str:
    """Return a URL without what could be secret: a user may be a token, and an option a password."""
    return url if is_in_environment(url) else ",".join(_shown(urlsplit(each)) for each in url.split(","))


def _shown(parts: SplitResult) -> str:
    user, at, server = parts.netloc.rpartition("@")
    options = f"?{_HIDDEN}" if parts.query or parts.fragment else ""
    return f"{parts.scheme}://{_HIDDEN if user else ''}{at}{server}{parts.path}{options}"


def without_secrets(text: str, url: str) -> str:
    """Return a text, such as that of an exception, without what is secret in a URL."""
    for each in url.split(","):
        parts = urlsplit(each)
        secrets = [parts.query, parts.password or parts.username]
        secrets += [value for name, value in parse_qsl(parts.query) if _SECRET.search(name)]
        for secret in filter(None, secrets):
            text = text.replace(secret, _HIDDEN).replace(unquote(secret), _HIDDEN)
    return text
