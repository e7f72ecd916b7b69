# SPDX-License-Identifier: MIT
"""Files at an SFTP server. No call waits for a server that does not answer: what is cancelled ends at once."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from asyncssh import SFTPClient, SFTPClientFile

T = TypeVar("T")

Look: TypeAlias = Literal["absent", "same", "other", "hidden"]
"""What a look at a name says; ``hidden``: the server does not let this user look."""

_PIECE: Final = 32_768  # what every server takes
_MOST_UNDER_WAY: Final = 32
_MOST_COMPARED: Final = 1_048_576
"""A larger file is the same if it has the same name and size."""


class _Incomplete(Exception):
    """The server has not stored what was sent."""


def is_answer(error: BaseException) -> bool:
    """Say whether an error is what a server has answered, so that it is certain what it has done."""
    import asyncssh

    is_lost = isinstance(error, asyncssh.SFTPConnectionLost | asyncssh.SFTPNoConnection)
    return isinstance(error, asyncssh.SFTPError | _Incomplete) and not is_lost


async def look(sftp: "SFTPClient", path: str, body: bytes) -> Look:
    """Return whether a file is there, and whether it has these bytes."""
    import asyncssh

    try:
        size = (await sftp.stat(path)).size
        if size is not None and size != len(body):
            return "other"
        if len(body) > _MOST_COMPARED:
            return "same"
        file = await sftp.open(path, "rb", block_size=0)
        return "same" if await _then_close(file, _has(file, body)) else "other"
    except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
        return "absent"
    except asyncssh.SFTPPermissionDenied:  # of a box that one can only put something into
        return "hidden"


async def write(sftp: "SFTPClient", path: str, body: bytes) -> None:
    """Write a file. What an earlier process has left of it is written over, and never shortened."""
    from asyncssh.constants import FXF_CREAT, FXF_WRITE

    file = await sftp.open(path, FXF_WRITE | FXF_CREAT, encoding=None, block_size=0)
    size = await _then_close(file, _written(file, body))
    if size is not None and size != len(body):
        await remove(sftp, path)
        raise _Incomplete(f"of {len(body):,} bytes, {size:,} are in the file")


async def rename(sftp: "SFTPClient", path: str, target: str, body: bytes) -> Look:
    """Give a file its name; return what has this name then.

    A server refuses to replace a file. One without this command has the one of POSIX, which may replace it.
    """
    import asyncssh

    try:
        try:
            await sftp.rename(path, target)
        except asyncssh.SFTPOpUnsupported:
            await sftp.posix_rename(path, target)
    except asyncssh.SFTPError as error:
        if not is_answer(error):
            raise
        return await look(sftp, target, body)  # it may be there, by another process
    return "same"


async def remove(sftp: "SFTPClient", path: str) -> None:
    """Remove a file, if that can be done."""
    import asyncssh

    with suppress(asyncssh.Error, OSError):
        await sftp.remove(path)


async def _has(file: "SFTPClientFile", body: bytes) -> bool:
    """Say whether a file has these bytes and no others."""
    place = 0
    while True:
        piece: object = await file.read(_PIECE, place)  # bytes, whatever the stubs say
        if not isinstance(piece, bytes) or piece != body[place : place + len(piece)]:
            return False
        if not piece:
            return place == len(body)
        place += len(piece)


async def _written(file: "SFTPClientFile", body: bytes) -> int | None:
    """Write to a file, as far as possible to the disk; return how large the file is then."""
    import asyncssh

    window = _PIECE * _MOST_UNDER_WAY
    for start in range(0, len(body), window):
        places = range(start, min(start + window, len(body)), _PIECE)
        await asyncio.gather(*(file.write(body[place : place + _PIECE], place) for place in places))
    with suppress(asyncssh.SFTPOpUnsupported):
        await file.fsync()
    return (await file.stat()).size


async def _then_close(file: "SFTPClientFile", working: Awaitable[T]) -> T:
    """Return what comes of work on a file, which is closed then if the server answers."""
    import asyncssh

    try:
        result = await working
    except asyncssh.SFTPError as error:
        if is_answer(error):
            with suppress(asyncssh.Error, OSError):
                await file.close()
        raise
    await file.close()
    return result
