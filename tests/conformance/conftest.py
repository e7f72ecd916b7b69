# SPDX-License-Identifier: MIT
"""Which behaviours are left to ``make torture``."""

from inspect import signature

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to ``make torture`` what happens in time on a server with a clock of its own: there it is waited for."""
    for item in items:
        if item.path.name == "test_nats.py" and "clock" in signature(item.function).parameters:
            item.add_marker(pytest.mark.torture)
