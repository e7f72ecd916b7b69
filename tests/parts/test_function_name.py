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
