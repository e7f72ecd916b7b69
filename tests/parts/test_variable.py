# SPDX-License-Identifier: MIT
"""A process that runs what others have stored reads no environment variables but those it was told."""

import asyncio

import pytest

from redrive.errors import InvalidSetting
from redrive.parts import (
    any_variables,
    check_variable_names,
    from_environment,
    is_in_variables,
    only_variables,
    secret_value,
)
from redrive.routes.redis_client import REDIS_URL


@pytest.fixture(autouse=True)
def _variables(monkeypatch):
    monkeypatch.setenv("TOKEN", "geheim")
    monkeypatch.setenv("SHOP_URL", "redis://shop:geheim@example.org")


@pytest.mark.parametrize("read", [from_environment, secret_value, REDIS_URL.resolved], ids=["header", "secret", "url"])
def test_a_variable_that_is_not_on_the_list_is_not_read_and_the_error_says_how_to_add_it(read):
    with only_variables(["TOKENS", "SHOP"]), pytest.raises(InvalidSetting) as caught:
        read("url", "env:SHOP_URL")
    problem = "names a variable that this process may not read; add its name to variables in redrive.toml"
    assert str(caught.value) == f"url='env:SHOP_URL': {problem}"
    assert "geheim" in read("url", "env:SHOP_URL")


def test_a_name_on_the_list_may_be_a_pattern():
    with only_variables(["TOKEN", "SHOP_*"]):
        assert from_environment("x", "env:TOKEN") == "geheim"
        assert REDIS_URL.resolved("url", "env:SHOP_URL").startswith("redis://")
        with only_variables([]), pytest.raises(InvalidSetting):
            from_environment("x", "env:TOKEN")
    assert is_in_variables("A_B", ["A*"])
    assert not is_in_variables("a_b", ["A*"])
    assert not is_in_variables("AB", ["A", "B", "A."])


async def test_declarations_of_own_files_read_any_and_so_do_tasks_that_begin_there():
    async def read():
        return from_environment("x", "env:TOKEN")

    with only_variables([]):
        with any_variables():
            assert from_environment("x", "env:TOKEN") == "geheim"
            begun = asyncio.create_task(read())
        assert await begun == "geheim"
        with pytest.raises(InvalidSetting):
            await read()


@pytest.mark.parametrize("odd", ["", "A B", "env:A", "A?", "[A]", "1A"])
def test_what_is_no_name_is_refused(odd):
    check_variable_names("variables", ["A", "_b*", "*"])
    with pytest.raises(InvalidSetting, match="must be the name of an environment variable"):
        check_variable_names("variables", [odd])
