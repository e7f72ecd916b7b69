# SPDX-License-Identifier: MIT
"""A migration that has landed is never changed: databases were made by it, and none of them would notice.

The text of each is kept in ``migrations/``. ``python -m tests.contract.test_migrations`` adds those that are new, and
never changes one that is there.
"""

from pathlib import Path

import pytest

from redrive.engines.postgres.schema import MIGRATIONS as POSTGRES
from redrive.engines.sqlite.schema import MIGRATIONS as SQLITE

TEXTS = Path(__file__).with_name("migrations")
ALL = [(engine, *each) for engine, migrations in (("sqlite", SQLITE), ("postgres", POSTGRES)) for each in migrations]


def path_of(engine, name):
    return TEXTS / engine / f"{name}.sql"


@pytest.mark.parametrize(("engine", "name", "script"), ALL, ids=[f"{engine}-{name}" for engine, name, _ in ALL])
def test_a_migration_is_what_it_was_when_it_landed(engine, name, script):
    path = path_of(engine, name)
    if not path.exists():
        pytest.fail(f"{name} is new: keep its text with python -m tests.contract.test_migrations, and commit it")
    if path.read_text() != script:
        pytest.fail(
            f"{name} of {engine} has landed, and databases were made by it: undo the change, and write a new migration"
            f" with the next number instead. If it has not landed yet, delete {path} and keep its text anew"
        )


def test_no_migration_that_has_landed_is_gone():
    kept = {path.relative_to(TEXTS).with_suffix("").as_posix() for path in TEXTS.rglob("*.sql")}
    assert kept - {f"{engine}/{name}" for engine, name, _ in ALL} == set()


if __name__ == "__main__":
    for engine, name, script in ALL:
        if not (path := path_of(engine, name)).exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(script)
