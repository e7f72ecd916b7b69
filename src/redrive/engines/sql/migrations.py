# SPDX-License-Identifier: MIT
"""Which migrations a database still needs: the same rule in both engines. Pure: no I/O."""

from collections.abc import Sequence
from typing import NamedTuple

from redrive.errors import SchemaMismatch


class Migration(NamedTuple):
    """A step of a schema.

    Attributes:
        number: its number, from 1 on.
        name: its name, the same in both engines.
        script: what it does.
    """

    number: int
    name: str
    script: str


def pending(migrations: Sequence[tuple[str, str]], done: Sequence[str]) -> list[Migration]:
    """Return the migrations that a database still needs.

    Args:
        migrations: the names and scripts of all migrations.
        done: the names of those that the database has, in order of their numbers.

    Raises:
        SchemaMismatch: the database is newer than these migrations, or has other ones.
    """
    known = [name for name, _ in migrations]
    if list(done) != known[: len(done)]:
        is_newer = len(done) > len(known) and list(done[: len(known)]) == known
        raise SchemaMismatch(len(done), len(known), "" if is_newer else f"its migrations are {', '.join(done)}")
    return [Migration(number, *each) for number, each in enumerate(migrations, 1) if number > len(done)]
