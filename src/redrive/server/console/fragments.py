# SPDX-License-Identifier: MIT
"""Live updates of pages: what has changed on a page, made once for all who may see the same and ask at the same time.

A fragment is kept with empty seats for what is a viewer's own, the token and the key of its forms, and is compressed
once. Two hundred browsers that hear of a change at the same moment cost little more than one then: who asks is asked
for each of them, with the rights that they have then, and nothing else.
"""

import asyncio
import re
import secrets
import struct
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, TypeAlias

from fastapi import Response
from markupsafe import escape
from starlette.requests import HTTPConnection

from redrive.access import Principal
from redrive.access.credentials import csrf_token, new_secret
from redrive.clock import Clock
from redrive.errors import RedriveError
from redrive.http.listener import AsgiApp, Packet, Receive, Send
from redrive.server.api.transfer import SMALLEST_COMPRESSED
from redrive.server.console import text_formats
from redrive.server.console.browser_names import FRAGMENT, ZONE
from redrive.server.door import cookie_name
from redrive.server.recent import UNCOVER_HEADER

_SEAT: Final = secrets.token_hex(16)
CSRF_SEAT: Final = f"csrf-{_SEAT}"
"""Where the token of a viewer's session goes."""

KEY_SEAT: Final = f"key-{_SEAT}"
"""Where the key of a viewer's forms goes."""

_SEATS: Final = re.compile(f"({CSRF_SEAT}|{KEY_SEAT})".encode())
_SHARED_S: Final = 0.25
_MOST: Final = 200
_VARY: Final = f"cookie, accept, {FRAGMENT}, accept-encoding"
_GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # no name, no time: RFC 1952
_LAST_BLOCK: Final = b"\x03\x00"  # an empty one that says that it is the last: RFC 1951
_LEVEL: Final = 6

_Key: TypeAlias = tuple[object, ...]


class Fragment:
    """A part of a page, with seats for what is a viewer's own.

    Args:
        html: the part.
        who: whom it was made for; where it names them, as in why they may not do something, no one else gets it.
    """

    def __init__(self, html: str, who: Principal) -> None:
        self._only = who if str(escape(who.name)) in html else None
        text = html.encode(errors="replace")
        self._tag = tag_of(text)
        self._pieces = _SEATS.split(text)  # every second one is a seat
        self._is_small = len(text) < SMALLEST_COMPRESSED
        self._packed: list[bytes] = []

    def is_for(self, who: Principal) -> bool:
        """Say whether a viewer who may see the same may have it."""
        return self._only is None or (self._only.name, self._only.kind) == (who.name, who.kind)

    def answer(self, request: HTTPConnection) -> Response:
        """Return the answer for a viewer, compressed if their browser takes that."""
        own = {CSRF_SEAT.encode(): (csrf_of(request) or "").encode(), KEY_SEAT.encode(): new_secret().encode()}
        headers = {"etag": self._tag, "vary": _VARY}
        if self._is_small or "gzip" not in request.headers.get("accept-encoding", ""):
            body = b"".join(own.get(piece, piece) for piece in self._pieces)
        else:
            headers["content-encoding"] = "gzip"
            body = self._compressed([own.get(piece, piece) for piece in self._pieces])
        return Response(body, media_type="text/html", headers=headers)

    def _compressed(self, pieces: list[bytes]) -> bytes:
        """Return a gzip file with what is a viewer's own in blocks that are not compressed, between those of all.

        So no one can learn a token from the size of an answer, either.
        """
        self._packed = self._packed or _packed(self._pieces[::2])
        blocks = [_stored(piece) if place % 2 else self._packed[place // 2] for place, piece in enumerate(pieces)]
        whole = b"".join(pieces)
        return b"".join((_GZIP_HEAD, *blocks, _LAST_BLOCK, struct.pack("<LL", zlib.crc32(whole), len(whole))))


def _packed(pieces: list[bytes]) -> list[bytes]:
    """Return pieces as blocks that do not refer to each other: what is between them is not the same for all."""
    packer = zlib.compressobj(_LEVEL, wbits=-zlib.MAX_WBITS)
    return [packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH) for piece in pieces]


def _stored(piece: bytes) -> bytes:
    return struct.pack("<BHH", 0, len(piece), len(piece) ^ 0xFFFF) + piece


def tag_of(text: bytes) -> str:
    """Return the tag of a page: that of what it shows, whatever the token and the key in its forms are."""
    return f'W/"{blake2b(text, digest_size=12).hexdigest()}"'


def csrf_of(request: HTTPConnection) -> str | None:
    """Return the token that the forms of a session have; None if the request is in none."""
    secret = request.cookies.get(cookie_name(request.app.state.settings))
    return None if secret is None else csrf_token(secret)


def key_of(who: Principal, request: HTTPConnection) -> _Key:
    """Return what a fragment depends on: what a viewer may see, where they are, and what they ask for."""
    zone = text_formats.zone_of(request.cookies.get(ZONE, ""))
    rights = who.role, who.queues, who.may_see_bodies
    return *rights, str(zone), request.scope["path"], request.scope["query_string"]


@dataclass(slots=True)
class _Kept:
    made_at: float = float("-inf")
    found: Fragment | Response = field(default_factory=Response)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Fragments:
    """Fragments that were made a moment ago.

    How old one may be is counted from when it was asked for: else, on a busy machine, it would be too old for each of
    those who have waited for it, and be made for one after the other.

    Args:
        clock: what age goes by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()

    async def get(
        self, key: _Key, who: Principal, make: Callable[[], Awaitable[Fragment | Response]]
    ) -> Fragment | Response:
        """Return a fragment; those who ask for the same at the same time wait for one to be made."""
        asked = self._clock.monotonic()
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        async with kept.lock:
            if asked - kept.made_at <= _SHARED_S and _is_for(kept.found, who):
                return kept.found
            began = self._clock.monotonic()
            kept.found = found = await make()
            kept.made_at = began
            return found

    async def recent(self, key: _Key, who: Principal) -> Fragment | None:
        """Return a fragment that is there, or is being made; None: it must be made."""
        asked = self._clock.monotonic()
        kept = self._kept.get(key)
        if kept is None:
            return None
        async with kept.lock:
            is_recent = asked - kept.made_at <= _SHARED_S
            return kept.found if is_recent and isinstance(kept.found, Fragment) and kept.found.is_for(who) else None


def _is_for(found: Fragment | Response, who: Principal) -> bool:
    return not isinstance(found, Fragment) or found.is_for(who)


class SharedFragments:
    """Answers live updates that were made a moment ago for others who may see the same; passes on all else.

    Viewers who may not see a page find none here: what they ask for goes on to the desk, which says why and notes it.

    Args:
        app: what comes next.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Packet, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        found = await _shared(HTTPConnection(scope)) if _is_update(scope) else None
        if found is None:
            await self._app(scope, receive, send)
        else:
            await found(scope, receive, send)


def _is_update(scope: Packet) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    names = {name for name, _ in scope["headers"]}
    return FRAGMENT.encode() in names and UNCOVER_HEADER.encode() not in names


async def _shared(request: HTTPConnection) -> Response | None:
    state = request.app.state
    try:
        who = await state.door.admit(request)
    except RedriveError:
        return None  # the page will say why
    fragments: Fragments = state.console
    fragment = await fragments.recent(key_of(who, request), who)
    return None if fragment is None else fragment.answer(request)
