# SPDX-License-Identifier: MIT
"""A text file that grows, read line by line, whatever it is called by now. It blocks: use it in a thread."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Self

from redrive.routes.receivers.tail_position import TailPosition, fingerprint

HEAD_BYTES: Final = 256
"""How many bytes of its first line tell a file from another."""

_BEFORE_BYTES = 64
_CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line of a file.

    Attributes:
        body: the line, without what ends it.
        offset: where it begins.
        end: where the next one begins.
        is_truncated: whether the line was too long, and its rest follows as the next one.
        before: what stands before ``end``, at most 64 bytes.
    """

    body: bytes
    offset: int
    end: int
    is_truncated: bool
    before: bytes


def split_lines(data: bytes, offset: int, max_line: int, *, is_all: bool) -> Iterator[FileLine]:
    """Yield the whole lines in some bytes of a file.

    Args:
        data: the bytes.
        offset: where they are in the file.
        max_line: how many bytes of a line make an event at most.
        is_all: whether nothing will follow: then what is left at the end is a line, too.
    """
    at = 0
    while at < len(data):
        newline = data.find(b"\n", at, at + max_line + 1)
        is_truncated = newline < 0 and len(data) - at > max_line
        if newline >= 0:
            stop, next_at = newline, newline + 1
        elif is_truncated:
            stop = next_at = at + max_line
        elif is_all:
            stop = next_at = len(data)
        else:
            return
        body = data[at:stop].removesuffix(b"\r") if newline >= 0 else data[at:stop]
        before = data[max(0, next_at - _BEFORE_BYTES) : next_at]
        yield FileLine(body, offset + at, offset + next_at, is_truncated, before)
        at = next_at


class FollowedFile:
    """An open file, and how far it was read.

    Attributes:
        offset: where the next line begins.
    """

    def __init__(self, file: BinaryIO, offset: int = 0, before: bytes = b"") -> None:
        self._file = file
        self._before = before
        self.offset = offset
        facts = os.fstat(file.fileno())
        self.device, self.inode = facts.st_dev, facts.st_ino

    @classmethod
    def at_beginning(cls, path: Path) -> Self:
        """Open a file that is read from its beginning."""
        return cls(path.open("rb", buffering=0))

    @classmethod
    def at_end(cls, path: Path, max_line: int) -> Self:
        """Open a file whose lines are left out that are there; one that is not complete yet is not."""
        found = cls.at_beginning(path)
        size = os.fstat(found._file.fileno()).st_size
        start = max(0, size - max_line)
        data = found._read(start, size - start)
        kept = data.rfind(b"\n") + 1 if b"\n" in data or start == 0 else len(data)
        found.offset, found._before = start + kept, data[max(0, kept - _BEFORE_BYTES) : kept]
        return found

    @classmethod
    def resumed(cls, path: Path, position: TailPosition) -> Self | None:
        """Open the file that a position is about; None if it is another one by now, or has other contents."""
        found = cls.at_beginning(path)
        before = found._read(position.offset - position.before_bytes, position.before_bytes)
        is_same_file = (found.device, found.inode) == (position.device, position.inode)
        has_same_head = position.head in ("", found.head())
        has_same_before = len(before) == position.before_bytes and fingerprint(before) == position.before
        if is_same_file and has_same_head and (has_same_before or not position.offset):
            found.offset, found._before = position.offset, before
            return found
        found.close()
        return None

    def head(self, *, is_all: bool = False) -> str:
        """Return the fingerprint of the first line; empty while that is not complete.

        Args:
            is_all: whether nothing will follow: then the first line is what there is.
        """
        line, newline, _ = self._read(0, HEAD_BYTES).partition(b"\n")
        is_complete = bool(newline) or len(line) == HEAD_BYTES or is_all
        return fingerprint(line) if is_complete else ""

    def lines(self, most: int, max_line: int, *, is_all: bool = False) -> list[FileLine] | None:
        """Return the next lines; None if what was read before is not there any more.

        Args:
            most: how many lines at most.
            max_line: how many bytes of a line make an event at most.
            is_all: whether nothing will be written any more.
        """
        wanted = len(self._before) + max(_CHUNK_BYTES, max_line + 1)
        data = self._read(self.offset - len(self._before), wanted)
        if not data.startswith(self._before):
            return None
        new, ends_here = data[len(self._before) :], is_all and len(data) < wanted
        return list(islice(split_lines(new, self.offset, max_line, is_all=ends_here), most))

    def go_on_after(self, line: FileLine) -> None:
        """Read on behind a line."""
        self.offset, self._before = line.end, line.before

    def position(self, generation: int) -> TailPosition:
        """Return how far it was read."""
        return TailPosition(
            device=self.device,
            inode=self.inode,
            head=self.head(),
            generation=generation,
            offset=self.offset,
            before=fingerprint(self._before),
            before_bytes=len(self._before),
        )

    def close(self) -> None:
        """Close it."""
        self._file.close()

    def _read(self, start: int, size: int) -> bytes:
        """Return bytes of the file; fewer only where it ends."""
        self._file.seek(max(0, start))
        parts: list[bytes] = []
        while size > 0 and (part := self._file.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
