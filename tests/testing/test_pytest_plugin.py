# SPDX-License-Identifier: MIT
"""The fixtures that a user's tests get, in tests as users write them."""

import subprocess
import sys

import pytest

import redrive.engines.sqlite
import redrive.wiring  # noqa: F401 - pytester forgets modules that a run has imported, and half of a package would stay

pytest_plugins = ["pytester"]

ASYNC_TEST = """
    import pytest

    {mark}
    async def test_a_message_comes_back(redrive_broker, redrive_clock):
        await redrive_broker.declare("orders")
        await redrive_broker.send("orders", "order 42")
        (order,) = await redrive_broker.receive("orders")
        await order.abandon(delay=3600)
        assert await redrive_broker.receive("orders") == []
        redrive_clock.advance(3600)
        (order,) = await redrive_broker.receive("orders")
        assert order.body == b"order 42"
"""


@pytest.fixture
def run(pytester):
    """Run a file of tests with the given options; the plugins of the development environment are switched off."""

    def run(test: str, *options: str):
        pytester.makepyfile(test)
        off = ("xdist", "pytest_cov", "timeout", "hypothesispytest")
        scope = () if "no:asyncio" in options else ("-o", "asyncio_default_fixture_loop_scope=function")
        switched_off = (option for name in off for option in ("-p", f"no:{name}"))
        return pytester.runpytest_inprocess(*switched_off, *scope, *options)

    return run


@pytest.mark.parametrize(
    ("mark", "options"),
    [
        ("", ["-o", "asyncio_mode=auto"]),
        ("@pytest.mark.asyncio", ["-o", "asyncio_mode=strict"]),
        ("@pytest.mark.anyio", ["-o", "asyncio_mode=strict"]),
        ("@pytest.mark.anyio", ["-p", "no:asyncio"]),
    ],
    ids=["asyncio auto", "asyncio strict", "anyio beside asyncio", "anyio alone"],
)
def test_the_broker_is_open_and_goes_by_the_clock_of_the_test(run, mark, options):
    run(ASYNC_TEST.format(mark=mark), *options).assert_outcomes(passed=1)


def test_a_test_without_asyncio_has_a_blocking_broker(run):
    ran = run("""
        def test_a_message_comes_back(redrive_blocking_broker, redrive_clock):
            redrive_blocking_broker.declare("orders")
            redrive_blocking_broker.send("orders", "order 42")
            (order,) = redrive_blocking_broker.receive("orders")
            order.abandon(delay=3600)
            redrive_clock.advance(3600)
            (order,) = redrive_blocking_broker.receive("orders")
    """)
    ran.assert_outcomes(passed=1)


def test_without_the_clock_a_wait_takes_the_time_it_takes(run):
    ran = run("""
        def test_nothing_comes(redrive_blocking_broker):
            redrive_blocking_broker.declare("orders")
            assert redrive_blocking_broker.receive("orders", wait=0.001) == []
    """)
    ran.assert_outcomes(passed=1)


def test_program_and_test_share_the_database_of_the_url(run):
    ran = run("""
        from redrive import connect_blocking

        def program(url):
            with connect_blocking(url) as broker:
                broker.send("orders", "order 42")

        def test_it_sends(redrive_blocking_broker, redrive_url):
            redrive_blocking_broker.declare("orders")
            program(redrive_url)
            assert [order.body for order in redrive_blocking_broker.receive("orders")] == [b"order 42"]

        def test_each_test_has_its_own(redrive_blocking_broker):
            assert redrive_blocking_broker.queues() == []
    """)
    ran.assert_outcomes(passed=2)


def test_skipped_sleeps_are_the_value_of_no_sleep(run):
    ran = run("""
        import pytest
        from redrive.retry import Fixed, retry

        def test_it_gives_up(redrive_no_sleep):
            @retry(on=ConnectionError, policy=Fixed(60, jitter="none", max_attempts=3), deadline=None)
            def call():
                raise ConnectionError

            with pytest.raises(ConnectionError):
                call()
            assert redrive_no_sleep == [60, 60]
    """)
    ran.assert_outcomes(passed=1)


def test_without_a_plugin_for_async_tests_the_broker_says_what_it_needs(run):
    ran = run("def test_it(redrive_broker): ...", "-p", "no:asyncio", "-p", "no:anyio")
    ran.assert_outcomes(errors=1)
    ran.stdout.fnmatch_lines(["*needs pytest-asyncio or the pytest plugin of anyio*redrive_blocking_broker"])


def test_a_test_on_trio_says_what_the_broker_needs(run):
    ran = run(
        """
        import pytest

        @pytest.fixture
        def anyio_backend_name():
            return "trio"

        def test_it(redrive_broker, anyio_backend): ...
        """
    )
    ran.assert_outcomes(errors=1)
    ran.stdout.fnmatch_lines(["*needs the anyio backend 'asyncio'*"])


def test_importing_the_plugin_loads_none_of_what_the_fixtures_need():
    probe = "import pytest, sys; import redrive.testing.pytest_plugin; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = {name for name in ran.stdout.split() if name.startswith("redrive")}
    assert loaded == {"redrive", "redrive.testing", "redrive.testing.pytest_plugin"}
    assert "asyncio" not in ran.stdout.split()


def test_a_run_ends_with_what_the_conformance_suite_has_skipped(pytester):
    pytester.makepyfile("""
        import pytest

        class TestMine:
            @pytest.mark.parametrize("number", [1, 2])
            def test_sessions(self, number):
                pytest.skip("the engine's capabilities say: it has no sessions")

            def test_peek(self):
                pytest.skip("the engine has no peek")

            def test_other(self):
                pytest.skip("not on this machine")
    """)
    told = pytester.runpytest("-p", "no:xdist")
    told.stdout.fnmatch_lines(
        [
            "TestMine skips 3 behaviours of the conformance suite:",
            "     2  the engine's capabilities say: it has no sessions",
            "     1  the engine has no peek",
        ]
    )
    told.stdout.no_fnmatch_line("*not on this machine*")
