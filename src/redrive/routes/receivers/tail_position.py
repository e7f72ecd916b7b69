# SPDX-License-Identifier: MIT
"""How far a file that grows was read, and the small file that remembers it."""

import json
import os
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from redrive.errors import UsageError

_DIGITS = 16


def fingerprint(data: bytes) -> str:
    """Return a short text that other bytes do not have."""
    return sha256(data).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class TailPosition:
    """Up to where a file was read. With everything at 0 it says that there was no file yet.

    Attributes:
        device: the device that the file is on.
        inode: its number there.
        head: the fingerprint of its first line; empty if that was not complete yet.
        generation: how many files were read before it. One that was emptied and filled again counts as another.
        offset: how many of its bytes were acknowledged.
        before: the fingerprint of the last of these bytes.
        before_bytes: how many of them that covers.
    """

    device: int = 0
    inode: int = 0
    head: str = ""
    generation: int = 0
    offset: int = 0
    before: str = ""
    before_bytes: int = 0


def load_position(path: Path) -> TailPosition | None:
    """Return the position that a file remembers; None if there is no such file.

    Raises:
        UsageError: the file does not contain a position.
    """
    try:
        return TailPosition(**json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (TypeError, ValueError):
        raise UsageError(
            f"{path} does not contain a position; delete it to begin anew, as the setting start says, or restore it"
        ) from None


def store_position(path: Path, position: TailPosition) -> None:
    """Remember a position: after a crash the file has this one, or the one before."""
    draft = path.with_name(f"{path.name}.new")
    with draft.open("wb") as file:
        file.write(json.dumps(asdict(position)).encode())
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
