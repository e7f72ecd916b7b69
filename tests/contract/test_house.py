# SPDX-License-Identifier: MIT
"""The counts of ``make house``: how they are counted, and the limits that hold."""

import pytest

from tools.house import SRC, House, knots, percentile, table

HOUSE = House.at(SRC)


@pytest.fixture
def house(tmp_path):
    """Return the house of a small product, made of files by their path."""

    def build(**files: str) -> House:
        for name, text in files.items():
            path = tmp_path / "src" / "redrive" / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for folder in [tmp_path / "src" / "redrive", *(tmp_path / "src" / "redrive").rglob("*/")]:
            (folder / "__init__.py").touch()
        return House.at(tmp_path / "src")

    return build


def test_no_modules_import_one_another_when_they_run():
    assert HOUSE.cycles() == []


def test_few_imports_of_another_packages_private_modules():
    found = HOUSE.private_imports()
    assert len(found) <= 50, "\n".join(found)


def test_an_avoided_word_gets_rarer():
    found = HOUSE.avoided_word()
    assert len(found) <= 146, "\n".join(found)


def test_no_class_name_is_defined_twice():
    assert HOUSE.duplicate_classes() == {}


def test_a_private_module_is_one_inside_another_package(house):
    found = house(
        broker__port="x = 1",
        worker__worker="from redrive.broker import port\nfrom redrive.broker.port import x\nimport redrive.worker.call",
        worker__call="from redrive.broker import Broker\nfrom redrive import clock",
        clock="",
    )
    assert found.private_imports() == [
        "src/redrive/worker/worker.py:1: redrive.broker.port",
        "src/redrive/worker/worker.py:2: redrive.broker.port",
    ]


def test_a_port_is_not_private_to_engines(house):
    uses = "from redrive.recovery.port import x"
    found = house(recovery__port="x = 1", engines__sql__ledger=uses, cli__main=uses)
    assert found.private_imports() == ["src/redrive/cli/main.py:1: redrive.recovery.port"]


def test_a_module_that_its_package_lists_is_not_private(tmp_path):
    for name, text in {"broker/__init__": '__all__ = ["views"]', "broker/views": "", "cli/main": ""}.items():
        path = tmp_path / "redrive" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "redrive" / "cli" / "main.py").write_text("from redrive.broker import views")
    assert House.at(tmp_path).private_imports() == []


def test_imports_for_types_only_are_a_cycle_of_types_only(house):
    found = house(
        a="from redrive import b",
        b="TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from redrive import a",
    )
    assert found.cycles() == []
    assert found.cycles(typing=True) == [["redrive.a", "redrive.b"]]


def test_engines_may_name_the_classes_of_one_role_alike(house):
    found = house(
        engines__sqlite__store="class Store: ...",
        engines__postgres__store="class Store: ...",
        recovery__records="class Request: ...\nclass _Own: ...",
        cli__requests="class Request: ...\nclass _Own: ...",
    )
    assert found.duplicate_classes() == {"Request": ["redrive.cli.requests", "redrive.recovery.records"]}


def test_an_avoided_word_is_found_in_names_and_not_inside_other_words(house):
    found = house(a="told = _was_told  # Told\nuntold = 1")
    assert found.avoided_word() == ["src/redrive/a.py:1: told = _was_told  # Told"] * 3


def test_the_table_has_a_line_for_each_package_and_one_for_all(house):
    found = house(broker__port="def f():\n    return 1", engines__sqlite__store="import redrive.broker.port", clock="")
    names = [line[0] for line in table(found)]
    assert names == ["package", "redrive", "broker", "engines", "engines.sqlite", "all"]
    assert table(found)[2] == ("broker", "2", "2", "2/2/2", "-", "1/0")


def test_knots_are_what_reaches_itself_through_others():
    assert knots({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": ["e"]}) == [["a", "b", "c"]]


def test_percentiles_of_nothing_are_zero():
    assert percentile([], 0.9) == 0
    assert percentile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0.9) == 10
