# SPDX-License-Identifier: MIT
"""The time limit of tests, for what follows a failure too.

pytest-timeout stops its timer when a test fails, as a person may look into it with a debugger. But a test that has
failed may leave something that its tear-down waits for: the whole run would stand still, and no one would hear of it.
"""

import pytest
from pytest_timeout import _get_item_settings as settings_of  # the only place that knows both marks and settings


@pytest.hookimpl(trylast=True)  # after pytest-timeout
def pytest_exception_interact(node):
    """Begin to count anew, from the failure on."""
    if isinstance(node, pytest.Item) and not node.config.option.usepdb:
        settings = settings_of(node)
        if settings.timeout:
            node.ihook.pytest_timeout_set_timer(item=node, settings=settings)
