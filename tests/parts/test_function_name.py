# SPDX-License-Identifier: MIT
"""Functions by their names, and the list of those that a process may call."""

import json

import pytest

from redrive.errors import InvalidSetting
from redrive.parts import load_function, only_functions


def test_a_process_may_limit_the_functions_that_stored_declarations_name():
    load_function("function", "json:dumps")  # it is known here already
    with only_functions(["json:loads"]):
        assert load_function("function", "json:loads") is json.loads
        for name in ("json:dumps", "os:system"):
            with pytest.raises(InvalidSetting, match="not on the list of functions that this process may call"):
                load_function("function", name)
        with only_functions([]), pytest.raises(InvalidSetting):
            load_function("function", "json:loads")
    assert load_function("function", "json:dumps") is json.dumps


@pytest.mark.parametrize(
    ("source", "line", "problem"),
    [
        ("import json\nfrom json import nothing_such", 2, "ImportError: cannot import name 'nothing_such' from 'json'"),
        ("import nothing_such", 1, "ModuleNotFoundError: No module named 'nothing_such'"),
        ("\n\n1 / 0", 3, "ZeroDivisionError: division by zero"),
        ("def f(:", 1, "SyntaxError: invalid syntax"),
    ],
    ids=["name", "module", "error", "syntax"],
)
def test_a_module_that_fails_when_it_is_imported_is_named_with_its_line(tmp_path, monkeypatch, source, line, problem):
    module = f"broken_{line}_{problem[:6].lower()}"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidSetting) as refused:
        load_function("process", f"{module}:f")
    assert f"{module}.py, line {line}: {problem}" in str(refused.value)
    assert refused.value.__cause__ is not None
