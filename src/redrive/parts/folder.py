# SPDX-License-Identifier: MIT
"""Files that stored declarations may name: in a process that limits them, those in certain folders."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from redrive.errors import InvalidSetting

_folders: tuple[Path, ...] | None = None


@contextmanager
def only_folders(names: Iterable[str]) -> Generator[None]:
    """Let stored declarations name no files but those in these folders, in the whole process, until the block ends.

    For a process that runs what others have stored: to write to its database must not be a way to its files.
    """
    global _folders  # noqa: PLW0603 - it is one for the process, which is what it protects
    before, _folders = _folders, tuple(Path(each).resolve() for each in names)
    try:
        yield
    finally:
        _folders = before


def check_file(setting: str, path: str | Path) -> None:
    """Refuse a file that this process may not read or write.

    Args:
        setting: the name to blame in the error.
        path: where the file is; links are followed.

    Raises:
        InvalidSetting: it is in none of the folders.
    """
    if _folders is not None and not is_in_folders(path, _folders):
        problem = "is in none of the folders that this process may use; add its folder to folders in redrive.toml"
        raise InvalidSetting(setting, str(path), problem)


def is_in_folders(path: str | Path, folders: Iterable[str | Path]) -> bool:
    """Say whether a file is in one of some folders, or in a folder in one of them; links are followed."""
    try:
        found = Path(path).resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links, or a path that none can be
        return False
    return any(found.is_relative_to(Path(each).resolve()) for each in folders)
