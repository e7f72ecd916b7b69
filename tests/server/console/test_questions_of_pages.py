# SPDX-License-Identifier: MIT
"""What pages ask the store: each thing once, and no more than they need, however busy the machine is."""

import inspect
from collections import Counter
from itertools import count
from types import SimpleNamespace

import pytest

from redrive.access import Redaction, RedactionRules, Role
from redrive.engines.sql.runner import SqliteDriver
from redrive.server.api import ROUTERS
from redrive.server.api.endpoint import Endpoints, KnownCaller
from redrive.server.console import ROUTERS as PAGES
from redrive.server.console.template_environment import environment
from tests.server.conftest import principal

MOST = {
    "/": 52,
    "/failed": 20,
    "/failed?q=queue:orders": 20,
    "/failed/list": 14,
    "/failed/list?q=group:{group}": 21,
    "/failed/recover?q=group:{group}": 31,
}
"""The statements of pages, but for those about queues; some more than there are."""


@pytest.fixture
def asked(monkeypatch):
    """Collect statements with their values."""
    seen = []
    fetch = SqliteDriver.fetch

    async def noting(driver, text, values):
        seen.append((text, repr(list(values))))
        return await fetch(driver, text, values)

    monkeypatch.setattr(SqliteDriver, "fetch", noting)
    return seen


@pytest.mark.parametrize("path", MOST)
async def test_a_page_asks_few_questions(browser, seeded, asked, path):
    group = (await seeded.recovery.groups("queue:orders"))[0].id
    asked.clear()
    answer = await browser.get(path.format(group=group))
    assert answer.status_code == 200
    assert len(asked) <= MOST[path], "\n".join(text for text, _ in asked)


@pytest.mark.parametrize("path", ["/failed", "/failed/list"])
@pytest.mark.usefixtures("seeded")
async def test_a_list_asks_no_question_twice(browser, asked, path):
    asked.clear()
    assert (await browser.get(path)).status_code == 200
    assert [each for each, times in Counter(asked).items() if times > 1] == []


async def test_parts_of_a_page_share_answers_and_a_form_does_not():
    """A form changes things between its questions."""
    times = count(1)

    @Endpoints("numbers").inner("queues.read")
    async def number(caller, of="one"):
        return caller.action, of, next(times)

    def calling(method):
        request = SimpleNamespace(method=method)
        return KnownCaller(principal(Role.ADMIN), None, "own.read", Redaction(RedactionRules()), request)

    page, form = calling("GET"), calling("POST")
    assert [await page.ask(number) for _ in range(2)] == [("queues.read", "one", 1)] * 2
    assert await page.ask(number, of="two") == ("queues.read", "two", 2)
    assert [(await form.ask(number))[2] for _ in range(2)] == [3, 4]


def dependencies(dependant):
    for each in dependant.dependencies:
        yield each.call
        yield from dependencies(each)


def test_no_request_waits_for_a_thread_to_read_its_parameters():
    """A function that is not async is called in one."""
    routes = [route for router in (*ROUTERS, *PAGES) for route in router.routes]
    calls = {call for route in routes for call in dependencies(route.dependant)}
    assert len(calls) >= 4
    assert [call for call in calls if not inspect.iscoroutinefunction(call)] == []


def test_a_name_in_a_template_is_a_key_unless_every_dict_has_it():
    template = environment().from_string(
        "{{ view.name }} {{ view.count }} {% for key, _ in view.items() %}{{ key }},{% endfor %}"
    )
    assert template.render(view={"name": "a", "count": 3, "items": "of a message"}) == "a 3 name,count,items,"
