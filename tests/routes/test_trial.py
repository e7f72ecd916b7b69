# SPDX-License-Identifier: MIT
"""An event on trial: every step is shown, and nothing outside is touched."""

import json

from redrive.broker import Message
from redrive.routes import EventSender, call, http, match, route, sample, split, to_queue, transform
from redrive.routes.trial import try_route

NOW = 1_767_484_800.0


def steps(made, body):
    found = try_route(made, Message.of(body, id="e"), NOW)
    return [(each.step, each.outcome, [json.loads(message.body) for message in each.messages]) for each in found]


def begin():
    return route("a", source=http("/orders"))


def test_every_step_is_shown():
    made = begin() | match("body.total > 100") | transform("{id: body.id}") >> to_queue("big")
    assert steps(made, {"id": 1, "total": 500}) == [
        ("filter 1 (match)", "passed", [{"id": 1, "total": 500}]),
        ("filter 2 (transform)", "passed", [{"id": 1}]),
        ("sender (queue)", "would send e:a", [{"id": 1}]),
    ]


def test_it_ends_where_the_event_is_consumed():
    made = begin() | match("body.total > 100") | sample(1.0) >> to_queue("big")
    assert steps(made, {"total": 5}) == [("filter 1 (match)", "consumed", [])]


def test_it_ends_where_a_filter_fails():
    ((step, outcome, messages),) = steps(begin() | match("body.total > 100") >> to_queue("big"), {"id": 1})
    assert (step, messages) == ("filter 1 (match)", [])
    assert outcome.startswith("dead: ")


def test_each_part_of_a_split_event_has_its_key():
    made = begin() | split("body.items") | match("body.n > 0") >> to_queue("big")
    assert steps(made, {"items": [{"n": 0}, {"n": 1}, {"n": 2}]})[-1] == (
        "sender (queue)",
        "would send e:a:1, e:a:2",
        [{"n": 1}, {"n": 2}],
    )


def test_a_filter_that_reaches_outside_is_not_called():
    made = begin() | call("tests.routes.filters.functions:later") >> to_queue("big")
    assert steps(made, {"id": 1})[0] == ("filter 1 (call)", "not called: it reaches outside", [{"id": 1}])


def test_nothing_is_opened():
    class Closed(EventSender):
        kind = "closed"

        def open(self, environment):
            raise AssertionError

    assert steps(begin() >> Closed(), {"id": 1}) == [("sender (closed)", "would send e:a", [{"id": 1}])]
