# SPDX-License-Identifier: MIT
"""Every error has a code of its own, and every code its statuses, here and in the reference."""

import re
from http import HTTPStatus
from pathlib import Path

from redrive import errors
from redrive.cli.exit_status import ExitStatus, status_of
from redrive.error_codes import STATUSES, problem_type, statuses_of

REFERENCE = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"
CLASSES = [getattr(errors, name) for name in errors.__all__]


def test_every_error_class_has_a_code_of_its_own():
    codes = [vars(kind)["code"] for kind in CLASSES]
    assert len(set(codes)) == len(codes)
    assert [code for code in codes if not re.fullmatch(r"[a-z]+(-[a-z]+)*", code)] == []


def test_the_table_has_exactly_the_codes_there_are():
    assert sorted(STATUSES) == sorted(kind.code for kind in CLASSES)


def test_the_reference_names_every_code_and_its_exit_status():
    rows = re.findall(r"^\| `(\w+)` \| `([a-z-]+)` \| (\d+) \|", REFERENCE.read_text(), re.MULTILINE)
    documented = {name: (code, int(status)) for name, code, status in rows}
    assert documented == {kind.__name__: (kind.code, STATUSES[kind.code].exit_status) for kind in CLASSES}


def test_the_statuses_are_those_that_scripts_and_clients_know():
    for code, statuses in STATUSES.items():
        assert ExitStatus(statuses.exit_status) != 0, code
        assert HTTPStatus(statuses.http_status).value >= 400, code


def test_only_what_may_work_later_is_answered_as_unavailable():
    later = {kind.code for kind in CLASSES if issubclass(kind, errors.Unavailable)}
    assert {code for code, statuses in STATUSES.items() if statuses.http_status in (503, 504, 507)} <= later
    assert all(STATUSES[code].http_status >= 500 or STATUSES[code].http_status == 429 for code in later)


def test_what_is_not_there_is_not_found():
    for kind in CLASSES:
        if kind.code.endswith("-not-found"):
            assert STATUSES[kind.code].http_status == HTTPStatus.NOT_FOUND


def test_an_error_of_a_program_has_the_code_of_the_class_it_derives_from():
    class NoSuchTenant(errors.QueueNotFound):
        pass

    class Odd(errors.UsageError, code="odd"):
        pass

    assert NoSuchTenant("orders").code == "queue-not-found"
    assert status_of(NoSuchTenant("orders")) == ExitStatus.NO_QUEUE
    assert statuses_of(Odd.code) == STATUSES["error"]


def test_a_problem_type_names_the_code():
    assert problem_type("queue-not-found") == "urn:redrive:error:queue-not-found"
