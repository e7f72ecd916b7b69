# SPDX-License-Identifier: MIT
"""All routes together: the receivers they share, the names of their queues, and what does not fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import rules
from redrive.errors import InvalidRoute
from redrive.routes import from_queue, from_topic, http, route, tail, timer, to_log, to_queue, to_topic
from redrive.routes.plan import leg_queue, plan_of, queue_options, subscription_of, topic_of, topic_options


def line(name, source, sender=None, **settings):
    return route(name, source=source, **settings) >> (to_log() if sender is None else sender)


def refused(*routes):
    with pytest.raises(InvalidRoute) as caught:
        plan_of(routes)
    return caught.value


# --- receivers


def test_equal_receivers_of_one_application_are_one():
    plans = plan_of([line("b", http("/x")), line("a", http("/x")), line("c", http("/y")), line("d", timer(every=5))])
    assert [(plan.name, [each.name for each in plan.routes]) for plan in plans] == [
        ("http /x", ["a", "b"]),
        ("http /y", ["c"]),
        ("timer 5s", ["d"]),
    ]


def test_the_order_in_which_routes_are_given_does_not_matter():
    routes = [line(name, http(path)) for name, path in (("b", "/x"), ("a", "/y"), ("c", "/x"))]
    assert plan_of(routes) == plan_of(reversed(routes))


def test_a_receiver_is_ordered_if_one_of_its_routes_is():
    one, other = plan_of([line("a", http("/x")), line("b", http("/x"), ordering="strict"), line("c", http("/y"))])
    assert one.is_ordered
    assert not other.is_ordered


def test_two_settings_for_one_source_are_refused():
    error = refused(line("a", http("/x")), line("b", http("/x", max_bytes=5, methods=("PUT",))))
    assert (error.route, error.part) == ("b", "source.max_bytes")
    assert "the same source as route 'a' with another max_bytes, methods" in error.problem


def test_two_routes_of_one_name_are_refused():
    error = refused(line("a", http("/x")), line("a", http("/y")))
    assert (error.route, error.part) == ("a", "")
    assert "two routes of this name; rename one" in error.problem


# --- applications


def test_two_applications_may_have_routes_of_one_name():
    plans = plan_of([line("a", http("/x"), application="shop"), line("a", http("/y"), application="bank")])
    assert [plan.application for plan in plans] == ["bank", "shop"]


@pytest.mark.parametrize("source", [http("/x"), from_queue("q"), timer(every=5)])
def test_two_applications_cannot_share_a_source_that_gives_each_event_once(source):
    error = refused(line("a", source, application="bank"), line("b", source, application="shop"))
    assert (error.route, error.part) == ("b", "source")
    assert "application 'bank' reads" in error.problem
    assert "choose another source, or a topic" in error.problem


def test_two_applications_may_read_one_topic_and_have_queues_of_their_own():
    routes = [line("a", from_topic("t"), application=each) for each in ("bank", "default", "shop")]
    assert len(plan_of(routes)) == 3
    assert len({leg_queue(each) for each in routes}) == 3


# --- circles


@pytest.mark.parametrize(
    ("ways", "path"),
    [
        (["x>x"], "x -> x"),
        (["x>y", "y>x"], "x -> y -> x"),
        (["x>y", "y>z", "z>x"], "x -> y -> z -> x"),
        (["a>b", "b>c", "c>d", "d>b"], "b -> c -> d -> b"),
        (["a>b", "a>c", "b>d", "c>d", "d>c"], "c -> d -> c"),
    ],
)
def test_a_circle_of_queues_is_refused(ways, path):
    error = refused(*(line(way.replace(">", "-"), from_queue(way[0]), to_queue(way[2])) for way in ways))
    assert f"make a circle: {path}; end one of them elsewhere" in error.problem
    assert error.part == "sender"


def test_a_circle_through_a_topic_or_another_application_is_refused():
    first, last = line("a", from_topic("t"), to_queue("q")), line("b", from_queue("q"), to_topic("t"))
    assert "t -> q -> t" in refused(first, last).problem or "q -> t -> q" in refused(first, last).problem
    refused(
        line("a", from_queue("x"), to_queue("y"), application="bank"),
        line("b", from_queue("y"), to_queue("x"), application="shop"),
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8))
def test_against_a_model_that_follows_every_way(ways):
    routes = [line(f"r{n}", from_queue(f"q{a}"), to_queue(f"q{b}")) for n, (a, b) in enumerate(ways)]
    reached = set(ways)
    for _ in range(6):
        reached |= {(a, d) for a, b in reached for c, d in reached if b == c}
    if any(a == b for a, b in reached):
        assert "circle" in refused(*routes).problem
    else:
        plan_of(routes)


# --- names

ADDRESSES = st.text(st.sampled_from("a-./_Ä~"), max_size=5)
PATHS = ADDRESSES.map("/{}".format).filter(lambda path: path.isascii() and not path.startswith("/-/"))


@given(st.lists(PATHS, min_size=2, max_size=6, unique=True))
def test_no_two_paths_share_a_topic(paths):
    names = [topic_of("shop", http(path)) for path in paths]
    assert len(set(names)) == len(names)
    for name in names:
        rules.check_queue_name(f"{name}/route.ordered")
        assert not name.endswith("/")


@given(st.lists(ADDRESSES.filter(bool), min_size=2, max_size=6, unique=True))
def test_no_two_files_share_a_topic(paths):
    names = [topic_of("shop", tail(path)) for path in paths]
    assert len(set(names)) == len(names)
    for name in names:
        rules.check_queue_name(f"{name}/route.ordered")


def test_usual_paths_have_readable_names():
    assert topic_of("shop", http("/orders")) == "routes/shop/http/orders"
    assert topic_of("shop", from_queue("orders")) == "routes/shop/queue/orders"
    assert topic_of("shop", from_topic("orders")) == "orders"
    assert leg_queue(line("big", http("/orders"))) == "routes/default/http/orders/big"


def test_the_longest_names_are_names_of_queues():
    made = line("r" * 60, http("/" + "x" * 999), application="a" * 60, ordering="strict")
    rules.check_queue_name(leg_queue(made))


NAMES = st.sampled_from(["default", "x", "ordered", "y"])


@given(st.lists(st.tuples(NAMES, NAMES, st.sampled_from(["none", "key"])), max_size=6, unique=True))
def test_no_two_routes_of_a_topic_share_a_subscription(routes):
    made = [line(name, from_topic("t"), application=application, ordering=order) for application, name, order in routes]
    assert len({subscription_of(each) for each in made}) == len(made)


def test_an_ordered_route_has_a_queue_of_its_own_with_sessions():
    plain, ordered = line("a", http("/x")), line("a", http("/x"), ordering="strict")
    assert leg_queue(plain) != leg_queue(ordered)
    assert "requires_session" not in queue_options(plain)
    assert queue_options(ordered)["requires_session"] is True


def test_ids_are_remembered_where_a_source_delivers_again():
    assert "duplicate_detection" in topic_options(http("/x"))
    assert "duplicate_detection" not in topic_options(from_queue("q"))  # it is settled in one transaction
