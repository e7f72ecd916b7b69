# SPDX-License-Identifier: MIT
"""A test that fails and then hangs ends all the same; the run of it is a process of its own, as it may not end."""

from pathlib import Path

import tests

pytest_plugins = ["pytester"]


def test_the_tear_down_of_a_test_that_has_failed_has_a_limit(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(tests.__path__[0]).parent))
    pytester.makeconftest("from tests.time_limits import pytest_exception_interact")
    pytester.makepyfile("""
        import signal

        import pytest

        @pytest.fixture
        def waits_for_ever():
            yield
            signal.pause()

        def test_fails(waits_for_ever):
            assert False
    """)
    ran = pytester.runpytest_subprocess("-p", "no:xdist", "--timeout", "0.2", timeout=60)
    ran.assert_outcomes(failed=1, errors=1)
    ran.stdout.fnmatch_lines(["*Timeout*"])
