# SPDX-License-Identifier: MIT
"""The same error has the same sentence and the same status in every command."""

import pytest

from redrive import errors
from redrive.cli.exit_status import ExitStatus, status_of
from redrive.cli.output.error_text import error_text


@pytest.mark.parametrize(
    "command",
    [
        *(("send", "nosuch", "x"), ("peek", "nosuch"), ("receive", "nosuch", "--complete"), ("cancel", "nosuch", "1")),
        *(
            ("queues", "show", "nosuch"),
            ("queues", "purge", "nosuch", "--yes"),
            ("queues", "delete", "nosuch", "--yes"),
        ),
        *(("queues", "update", "nosuch", "--lock-duration", "1m"), ("dead", "list", "nosuch")),
        *(
            ("dead", "show", "nosuch", "1"),
            ("dead", "resubmit", "nosuch", "--yes"),
            ("dead", "purge", "nosuch", "--yes"),
        ),
        *(("recover", "--all", "--to", "nosuch", "--yes"), ("recover", "--all", "--to", "nosuch", "--dry-run")),
        *(
            ("redirects", "add", "orders", "nosuch"),
            ("ingest", "--queue", "nosuch"),
            ("ingest", "--dead-letters", "nosuch"),
        ),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("orders")
def test_a_queue_that_is_not_there_has_one_answer(refused, command):
    said = refused(*command, status=5)
    assert said.startswith("error: there is no queue 'nosuch")
    assert said.endswith("redrive queues lists all queues, redrive queues declare adds one\n")


@pytest.mark.usefixtures("orders")
def test_a_queue_that_was_perhaps_meant_is_named(refused):
    for command in (("send", "ordres", "x"), ("recover", "--all", "--to", "ordres", "--yes")):
        assert "there is no queue 'ordres'; did you mean 'orders'?" in refused(*command, status=5)


@pytest.mark.parametrize(
    "command",
    [
        *(("send", "orders", "x", "--ttl", "soon"), ("send", "orders", "x", "--delay", "soon")),
        *(
            ("receive", "orders", "--complete", "--wait", "soon"),
            ("queues", "update", "orders", "--default-ttl", "soon"),
        ),
        *(("recover", "--all", "--in", "soon"), ("recover", "--all", "--wait", "soon", "--yes")),
        ("failed", "sweep", "--older-than", "soon", "--yes"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("orders")
def test_a_time_that_is_none_has_one_answer(refused, command):
    assert "write seconds as a number" in refused(*command, status=2)


def test_every_error_has_a_status():
    """One that is new says what it is, or is an error like any other."""
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.RedriveError):
            assert isinstance(status_of(kind.__new__(kind)), ExitStatus)


def test_a_database_that_cannot_be_written_cannot_be_looked_at_either():
    said = error_text(errors.StorageReadOnly("orders.db: the database cannot be written"))
    assert said.endswith("copy the file and read the copy")
