# SPDX-License-Identifier: MIT
"""The server that tests start: it comes, crashes, comes back, has a standby, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.patience import PATIENCE_S
from tests.postgres import binaries
from tests.postgres.fixtures import new_server
from tests.postgres.server import FAST, PostgresServer, database_of, run_sql, terminate_backends, wait_until

ROOT = Path(__file__).parents[2]


def numbers(url):
    return [row["number"] for row in run_sql(url, "SELECT number FROM numbers ORDER BY number")]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_what_was_committed_is_there_after_a_stop_and_a_start(breakable_postgres, breakable_url, mode):
    run_sql(breakable_url, "CREATE TABLE numbers (number int)", "INSERT INTO numbers VALUES (1), (2)")
    breakable_postgres.stop(mode)
    with pytest.raises((OSError, asyncpg.PostgresError)):
        run_sql(breakable_url, "SELECT 1")
    breakable_postgres.start()
    assert numbers(breakable_url) == [1, 2]


def test_a_schema_is_new_for_each_test(postgres_url, postgres_schema):
    run_sql(postgres_url, f'CREATE SCHEMA "{postgres_schema}"')


async def test_other_connections_can_be_ended(postgres_url):
    connection = await asyncpg.connect(postgres_url)
    assert terminate_backends(postgres_url) >= 1
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        await connection.fetch("SELECT 1")
    connection.terminate()


def test_a_standby_has_what_was_acknowledged_when_it_is_promoted(breakable_postgres, breakable_url):
    database = database_of(breakable_url)
    run_sql(breakable_url, "CREATE TABLE numbers (number int)")
    with breakable_postgres.standby() as standby:
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            standby.sql("CREATE TABLE impossible ()")
        run_sql(breakable_url, "INSERT INTO numbers VALUES (3)")
        breakable_postgres.stop("immediate")
        standby.promote()
        assert numbers(standby.url(database)) == [3]
        run_sql(standby.url(database), "INSERT INTO numbers VALUES (4)")
    breakable_postgres.start()
    assert numbers(breakable_url) == [3]


def test_a_server_removes_its_folder_and_its_processes():
    with PostgresServer(FAST) as server:
        server.create().start()
        pid = int((server.data / "postmaster.pid").read_text().splitlines()[0])
    assert not server.folder.exists()
    assert not is_alive(pid)


def test_a_server_does_not_outlive_tests_that_are_killed():
    program = (
        "import os, signal\n"
        "from tests.postgres.server import PostgresServer\n"
        "server = PostgresServer().create().start()\n"
        "print(server.folder, (server.data / 'postmaster.pid').read_text().split()[0], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    folder, pid = killed.stdout.split()
    wait_until(lambda: not is_alive(int(pid)) and not Path(folder).exists(), "a server that has gone")


def is_alive(pid):
    """Say whether there is such a process; one that has ended and waits to be noticed does not count."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S607
    return state.stdout.strip()[:1] not in ("", "Z")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to run the server as somebody else")
@pytest.mark.skipif(binaries._bundled() is None, reason="the machine's own programs can be read by everybody")
def test_programs_that_the_servers_user_cannot_read_are_copied(tmp_path):
    tmp_path.chmod(0o700)
    package = tmp_path / binaries.BUNDLE
    package.symlink_to(binaries._bundled().parents[1])
    private = package / binaries._bundled().parent.name / "bin"
    assert not binaries._can_run(private)
    assert binaries._can_run(binaries._copied(binaries._bundled()))


@pytest.fixture
def nothing_installed(monkeypatch):
    """Looks for PostgreSQL where none can be."""
    monkeypatch.setattr(binaries, "BUNDLE", "no_such_package")
    monkeypatch.setattr(binaries, "SYSTEM", Path("nowhere"))
    monkeypatch.setattr(binaries, "programs", binaries.programs.__wrapped__)  # it would remember what it found
    monkeypatch.setenv("PATH", "")


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(("ci", "ending"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_where_there_is_no_server_tests_are_skipped_with_a_reason_and_fail_in_ci(monkeypatch, ci, ending):
    monkeypatch.setenv("CI", ci)
    with pytest.raises(ending, match="no_such_package"):
        next(new_server("FAST"))
