# SPDX-License-Identifier: MIT
"""A test that fails and then hangs ends all the same."""

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
        def torn_down():
            yield
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 0, "nothing would end this"
            signal.raise_signal(signal.SIGALRM)  # as if it had taken that long

        def test_fails(torn_down):
            assert False
    """)
    ran = pytester.runpytest_subprocess("-p", "no:xdist", "--timeout", "240")
    ran.assert_outcomes(failed=1, errors=1)
    ran.stdout.fnmatch_lines(["*Timeout (>240*"])
