# SPDX-License-Identifier: MIT
"""Filters: what they take, what they mean, and their text."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import InvalidFilter, InvalidSetting, UsageError
from redrive.recovery.filter import FailureFacts, Filter, Pattern
from redrive.recovery.states import Outcome, Status

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
ID = "0123456789abcdef0123456789abcdef"
FACTS = FailureFacts(
    id=ID,
    message_id="order-17",
    status=Status.UNRESOLVED,
    queue="orders",
    failed_at=NOW,
    attempts=3,
    message_type="order.placed",
    exception_type="shop.errors.NoStock",
    group_ids=("ab12", "cd34"),
    source="error",
    host="web-1",
    reason="MaxDelayedRetries",
    headers={"tenant": "acme", "a b:c": "x", "tries": 3, "share": 1.5, "is_new": True, "gone": None, "nul": "a\0b"},
    text_parts=("tenant: acme", '{"customer": "Müller"}', "no such customer"),
    memberships={12: "failed-again"},
)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
names = texts.filter(lambda text: "*" not in text[:-1])
instants = st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=5, minutes=30)))).filter(
    lambda instant: 1 < instant.year < 9999
)


@st.composite
def filters(draw):
    dates = sorted(draw(st.lists(instants, min_size=2, max_size=2, unique=True)))
    counts = sorted(draw(st.lists(st.integers(0, 2**31 - 1), min_size=2, max_size=2)))
    operation = draw(st.none() | st.integers(0, 2**63 - 1))
    return Filter(
        status=draw(st.frozensets(st.sampled_from(Status))),
        queues=draw(st.lists(texts, min_size=1, max_size=3)),
        routes=draw(st.lists(texts, max_size=2)),
        sources=draw(st.lists(texts, max_size=2)),
        reasons=draw(st.lists(names, max_size=2)),
        hosts=draw(st.lists(names, max_size=2)),
        headers=draw(st.dictionaries(texts, st.lists(names, min_size=1, max_size=2), max_size=2)),
        groups=draw(st.lists(texts, max_size=3)),
        types=draw(st.lists(names, max_size=3)),
        exceptions=draw(st.lists(names, max_size=3)),
        text=draw(st.none() | texts),
        failed_from=draw(st.sampled_from([None, dates[0]])),
        failed_until=draw(st.sampled_from([None, dates[1]])),
        attempts_min=draw(st.sampled_from([None, counts[0]])),
        attempts_max=draw(st.sampled_from([None, counts[1]])),
        ids=draw(st.lists(st.uuids().map(lambda each: each.hex), max_size=2)),
        message_ids=draw(st.lists(texts, max_size=3)),
        operation=operation,
        outcomes=[] if operation is None else draw(st.lists(st.sampled_from([each.word for each in Outcome]))),
    )


def parse(text):
    return Filter.parse(text, now=NOW)


def refused(text):
    with pytest.raises(InvalidFilter) as caught:
        parse(text)
    assert caught.value.text == text
    return caught.value


@given(filters(), instants)
def test_the_text_of_a_filter_reads_as_that_filter(each, now):
    assert Filter.parse(str(each), now=now) == each


@given(filters())
def test_json_of_a_filter_reads_as_that_filter(each):
    assert Filter.from_json(json.loads(json.dumps(each.to_json()))) == each


@given(filters())
def test_what_is_in_order_stays_as_it_is(each):
    again = replace(each)
    assert again == each
    assert hash(again) == hash(each)


@given(st.text())
def test_any_text_is_a_filter_or_is_refused_at_a_place_in_it(text):
    try:
        assert isinstance(parse(text), Filter)
    except InvalidFilter as error:
        assert 0 <= error.position < len(text)  # noqa: PT017 - most texts are filters


@given(st.text("quefailds:<>=\"'\\ ,*12h", max_size=20))
def test_any_text_that_nearly_is_a_filter_is_refused_at_a_place_in_it(text):
    try:
        assert parse(str(parse(text))) == parse(text)
    except InvalidFilter as error:
        assert 0 <= error.position < len(text)  # noqa: PT017 - most texts are filters


def test_one_value_is_enough_and_order_does_not_matter():
    one = Filter(queues="orders", groups=["b", "a", "b"], types={"x"}, status="archived", ids=ID.upper())
    assert one.queues == ("orders",)
    assert one.groups == ("a", "b")
    assert one.types == ("x",)
    assert one.status == {Status.ARCHIVED}
    assert one.ids == (ID,)
    assert Filter(groups=("a", "b")) == Filter(groups=iter(["b", "a"]))
    assert hash(Filter(groups=("a", "b"))) == hash(Filter(groups=["b", "a"]))


@pytest.mark.parametrize(
    "status", [(), "any", "ANY", ["any", "resolved"], list(Status), {each.word for each in Status}]
)
def test_every_status_can_be_meant(status):
    assert Filter(status=status).status == frozenset(Status)
    assert str(Filter(status=status)) == "status:any"


def test_a_status_has_a_word_with_either_dash():
    assert Filter(status="retry_issued") == Filter(status="retry-issued") == Filter(status=Status.RETRY_ISSUED)


def test_instants_are_kept_in_utc():
    there = datetime(2026, 11, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert Filter(failed_from=there) == Filter(failed_from=datetime(2026, 11, 1, tzinfo=UTC))
    assert Filter(failed_from=there).failed_from.tzinfo is UTC


@pytest.mark.parametrize(
    ("settings", "blamed", "allowed"),
    [
        ({"status": "open"}, "status", "unresolved, retry-issued, resolved, archived, any"),
        ({"status": 1}, "status", "text"),
        ({"status": None}, "status", "text"),
        ({"queues": 5}, "queues", "text"),
        ({"queues": [""]}, "queues", "1 to 1,024"),
        ({"queues": ["x" * 1_025]}, "queues", "1 to 1,024"),
        ({"queues": map(str, range(10_001))}, "queues", "10,000"),
        ({"groups": ["a\0"]}, "groups", "NUL"),
        ({"groups": ["\ud800"]}, "groups", "text"),
        ({"types": ["a*b"]}, "types", "at its end only"),
        ({"exceptions": ["**"]}, "exceptions", "at its end only"),
        ({"text": ""}, "text", "1 to 1,024"),
        ({"failed_from": datetime(2026, 11, 1)}, "failed_from", "with a zone"),  # noqa: DTZ001 - that is the point
        ({"failed_from": "2026-11-01"}, "failed_from", "with a zone"),
        ({"failed_from": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))}, "failed_from", "datetime"),
        ({"failed_from": NOW, "failed_until": NOW}, "failed_until", "must be after 2026-11-16"),
        ({"age_min": -1}, "age_min", "must be an age"),
        ({"age_max": True}, "age_max", "must be an age"),
        ({"age_max": "soon"}, "age_max", "must be an age"),
        ({"age_min": 10, "age_max": 10}, "age_max", "must be more than 10 s"),
        ({"age_min": 10, "failed_until": NOW}, "age_min", "failed_until states it already"),
        ({"age_max": 10, "failed_from": NOW}, "age_max", "failed_from states it already"),
        ({"attempts_min": -1}, "attempts_min", "0 to 2,147,483,647"),
        ({"attempts_max": True}, "attempts_max", "whole number"),
        ({"attempts_max": 2**31}, "attempts_max", "whole number"),
        ({"attempts_min": 3, "attempts_max": 2}, "attempts_max", "3 or more"),
        ({"operation": 2**63}, "operation", "whole number"),
        ({"operation": "12"}, "operation", "whole number"),
        ({"ids": "0123"}, "ids", "32 hexadecimal"),
        ({"headers": "tenant"}, "headers", "values by the names of headers"),
        ({"headers": {"tenant": []}, "queues": "a"}, "headers", "a value for each header"),
        ({"headers": {"tenant": "a\0"}, "queues": "a"}, "headers", "NUL"),
        ({"headers": {"tenant": "acme"}}, "headers", "narrows the search"),
        ({"outcomes": "skipped"}, "outcomes", "must come with the operation"),
        ({"operation": 1, "outcomes": "lost"}, "outcomes", "pending, forwarded, succeeded, failed-again"),
    ],
)
def test_what_cannot_be_is_refused(settings, blamed, allowed):
    with pytest.raises(InvalidSetting) as caught:
        Filter(**settings)
    assert caught.value.setting == blamed
    assert allowed in str(caught.value)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        ("   ", {}),
        ("status:unresolved,archived", {"status": ["unresolved", "archived"]}),
        ("status:archived status:resolved", {"status": ["resolved", "archived"]}),
        ("status:any", {"status": ()}),
        ("queue:orders,billing queue:mail", {"queues": ["billing", "mail", "orders"]}),
        ("QUEUE=orders", {"queues": "orders"}),
        ("group:ab12", {"groups": "ab12"}),
        ("type:order.*", {"types": "order.*"}),
        ("exception:ValueError", {"exceptions": "ValueError"}),
        ("source:error,orders/$dead", {"sources": ["error", "orders/$dead"]}),
        ("route:invoices", {"routes": "invoices"}),
        ("host:web-*", {"hosts": "web-*"}),
        ("reason:Poison", {"reasons": "Poison"}),
        (
            'queue:a header.tenant:acme,b HEADER.tenant=c header."a b:c":"x y"',
            {"queues": "a", "headers": {"tenant": ["acme", "b", "c"], "a b:c": "x y"}},
        ),
        ("header.txt", {"text": "header.txt"}),
        ('queue:"a,b",c\'"\'', {"queues": ["a,b", 'c"']}),
        ("failed>2026-11-01", {"failed_from": datetime(2026, 11, 1, tzinfo=UTC)}),
        ("failed>=2026-11-01T10:00+02:00", {"failed_from": datetime(2026, 11, 1, 8, tzinfo=UTC)}),
        ("failed<2026-11-02T10:00Z", {"failed_until": datetime(2026, 11, 2, 10, tzinfo=UTC)}),
        ("failed<'2026-11-02 10:00'", {"failed_until": datetime(2026, 11, 2, 10, tzinfo=UTC)}),
        ("age<2h", {"failed_from": NOW - timedelta(hours=2)}),
        ("age<=2h", {"failed_from": NOW - timedelta(hours=2)}),
        ("age>1.5d", {"failed_until": NOW - timedelta(hours=36)}),
        ("age>=90m", {"failed_until": NOW - timedelta(minutes=90)}),
        (
            "age>1h age<2h",
            {"failed_from": NOW - timedelta(hours=2), "failed_until": NOW - timedelta(hours=1)},
        ),
        ("attempts>=3", {"attempts_min": 3}),
        ("attempts>3", {"attempts_min": 4}),
        ("attempts<10", {"attempts_max": 9}),
        ("attempts<=10", {"attempts_max": 10}),
        ("attempts:3", {"attempts_min": 3, "attempts_max": 3}),
        (f"id:{ID}", {"ids": ID}),
        ("message:order-17", {"message_ids": "order-17"}),
        ("operation:12 outcome:skipped,failed_again", {"operation": 12, "outcomes": ["failed-again", "skipped"]}),
        ('text:"no such customer"', {"text": "no such customer"}),
        ("text:a,b", {"text": "a,b"}),
        ("no such queue:orders customer", {"text": "no such customer", "queues": "orders"}),
        ('"queue:orders"', {"text": "queue:orders"}),
        ("12:30", {"text": "12:30"}),
        (r'"say \"hi\" \n \\"', {"text": r'say "hi" \n ' + "\\"}),
        ('"a\\\nb"', {"text": "a\\\nb"}),
        (r"'\\ \"'", {"text": r"\\ \""}),
        (r"C:\orders".replace("C:", "text:"), {"text": r"\orders"}),
    ],
)
def test_a_text_stands_for_a_filter(text, settings):
    assert parse(text) == Filter(**settings)


@pytest.mark.parametrize(
    ("text", "position", "told"),
    [
        (
            "quue:orders",
            0,
            "quue:orders: there is no key 'quue', and text to look for goes in quotes; did you mean 'queue'?",
        ),
        ("status:any customer=12", 11, "there are status, queue, route, source, group, type"),
        ("header:x", 0, "did you mean 'header.'?"),
        ("queue:a header.:x", 8, "write header.NAME:VALUE"),
        ("queue:a header.x<2", 8, "write header.NAME:VALUE"),
        ("queue:a header.x:", 8, "a value is missing"),
        ("queue:a header.x:a*b", 8, "a * at its end only"),
        ("header.x:1", 0, "must come with a term that narrows the search: queue:, type:, exception:"),
        ("status:any host:web-1 header.x:1", 22, "must come with a term that narrows the search"),
        ("Error:x", 0, "text to look for goes in quotes"),
        ("queue:a queue:b,", 8, "queue:b,: a value is missing"),
        ("queue:", 0, "a value is missing"),
        ("queue:,a", 0, "a value is missing"),
        ('queue:""', 0, "1 to 1,024"),
        ("text:", 0, "1 to 1,024"),
        ("queue>a", 0, "queue>a: write queue:"),
        ("failed:2h", 0, "write failed>= or failed< or failed>"),
        ("failed<=2h", 0, "write failed>= or failed< or failed>"),
        ("x failed>yesterday", 2, "must be a date such as 2026-11-01 or 2026-11-01T10:00Z; for an age write age<2h"),
        ("failed>2h", 0, "2h is an age, not a date: write age<2h for younger ones, age>2h for older ones"),
        ("failed<30d", 0, "30d is an age, not a date: write age<30d for younger ones, age>30d for older ones"),
        ("failed>-2h", 0, "must be a date"),
        ("failed>nans", 0, "must be a date"),
        ("failed>400d", 0, "400d is an age, not a date"),
        ("age:2h", 0, "write age> or age< or age>= or age<="),
        (
            "age>2026-11-01",
            0,
            "must be an age such as 30m, 2h or 30d, up to a year; for a date write failed<2026-11-01",
        ),
        ("age>-2h", 0, "must be an age"),
        ("age<nans", 0, "must be an age"),
        ("age>400d", 0, "up to a year"),
        ("age>1h age>2h", 7, "age>2h: it is stated twice"),
        ("age>2h age<1h", 7, "must be more than 7200 s: nothing is older than that and younger than this"),
        ("age<1h failed>2026-11-01", 7, "age< states it already"),
        ("failed<2026-11-01 age>1h", 18, "failed< states it already"),
        ("failed>2026-11-02 failed<2026-11-01", 18, "must be after"),
        ("attempts>=x", 0, "must be a whole number"),
        ("attempts<0", 0, "must be a whole number"),
        ("attempts:3 attempts<5", 11, "it is stated twice"),
        ("attempts>5 attempts<3", 11, "must be 6 or more"),
        ("operation:1,2", 0, "must be a whole number"),
        ("operation:1 operation:2", 12, "it is stated twice"),
        ("queue:a outcome:skipped", 8, "must come with the operation"),
        ("status:resolved status:open", 16, "must be one of unresolved, retry-issued"),
        ("id:12", 0, "32 hexadecimal"),
        ("type:a*b", 0, "a * at its end only"),
        ('queue:a "no such', 8, "this quote is never closed"),
        ("can't", 3, "this quote is never closed"),
        ("a" * 1_000 + " " + "b" * 1_000, 1_001, "1 to 1,024"),
    ],
)
def test_what_cannot_be_understood_is_refused_where_it_stands(text, position, told):
    error = refused(text)
    assert error.position == position
    assert told in error.problem
    assert len(error.problem) < 250


def test_now_needs_a_zone():
    with pytest.raises(InvalidSetting, match="now"):
        Filter.parse("age<2h", now=datetime(2026, 11, 1))  # noqa: DTZ001 - that is the point


def test_the_text_is_short_and_in_order():
    assert str(Filter()) == ""
    assert str(Filter(queues=["a,b", "c d", 'e"f', "g"])) == r'queue:"a,b","c d","e\"f",g'
    assert str(parse('text:"no one" attempts:3 age<2h queue:b,a')) == (
        'queue:a,b failed>=2026-11-16T10:00:00Z attempts>=3 attempts<=3 text:"no one"'
    )


@pytest.mark.parametrize("age", ["30d", 30 * 86_400, timedelta(days=30), 2_592_000.0])
def test_an_age_is_a_date_once_somebody_says_what_time_it_is(age):
    older, younger = Filter(age_min=age, queues="a"), Filter(age_max=age)
    assert (str(older), str(younger)) == ("queue:a age>2592000s", "age<2592000s")
    assert older.to_json() == {"queues": ["a"], "age_min": 2_592_000.0}
    assert Filter.from_json(older.to_json()) == older == Filter.from_json({"queues": "a", "age_min": "30d"})
    then = NOW - timedelta(days=30)
    assert older.at(NOW) == Filter(queues="a", failed_until=then) == parse(str(older))
    assert younger.at(NOW) == Filter(failed_from=then) == parse(str(younger))
    assert older.at(NOW).at(NOW + timedelta(days=1)) == older.at(NOW)
    assert Filter(queues="a").at(NOW) == Filter(queues="a")


@given(st.floats(1e-6, 366 * 86_400.0), instants)
def test_the_text_of_an_age_reads_as_that_age(age, now):
    for each in (Filter(age_min=age), Filter(age_max=age)):
        assert Filter.parse(str(each), now=now) == each.at(now)
        assert Filter.from_json(json.loads(json.dumps(each.to_json()))) == each


def test_an_age_means_nothing_before_somebody_says_what_time_it_is():
    for unsettled in (Filter(age_min="30d"), Filter(age_max=1)):
        with pytest.raises(UsageError, match=r"filter\.at\(now\)"):
            unsettled.matches(FACTS)


def test_a_route_stands_for_its_queues():
    queues = {"invoices": ["routes/shop/http/in/invoices", "old"], "direct": []}
    assert parse("route:invoices").on(queues) == Filter(queues=queues["invoices"])
    assert parse("route:invoices queue:old,orders").on(queues) == Filter(queues="old")
    assert parse("route:invoices").on(queues).written == "route:invoices"
    assert Filter(routes="invoices").on(queues).written == "route:invoices"
    assert parse("queue:a").on({}) == Filter(queues="a")


@pytest.mark.parametrize("text", ["route:direct", "route:invoices queue:orders"])
def test_a_route_without_a_queue_that_is_meant_matches_nothing(text):
    nothing = parse(text).on({"invoices": ["old"], "direct": []})
    assert nothing.ids == ("0" * 32,)
    assert not nothing.matches(FACTS)


def test_a_route_means_nothing_before_its_queues_are_known():
    with pytest.raises(UsageError, match=r"filter\.on\(queues\)"):
        parse("route:invoices").matches(FACTS)
    with pytest.raises(InvalidSetting, match="must be a route that is stored here"):
        parse("route:invoces").on({"invoices": ["old"]})


def test_a_filter_remembers_the_words_it_was_read_from():
    """They are what a request with a key is compared by: the same words are the same request, a moment later too."""
    assert parse("age>2h queue:b").written == "age>2h queue:b"
    assert Filter(age_min=60).at(NOW).written == "age>60s"
    assert Filter(queues="a").written == ""
    assert Filter(queues="a").at(NOW).written == ""


def test_json_has_what_is_not_as_usual():
    assert Filter().to_json() == {}
    assert Filter(status=["archived", "unresolved"], queues="a", failed_from=NOW, attempts_min=0).to_json() == {
        "status": ["unresolved", "archived"],
        "queues": ["a"],
        "failed_from": "2026-11-16T12:00:00Z",
        "attempts_min": 0,
    }


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "must be an object"),
        ({"quues": ["a"]}, "'quues': is no key of a filter; did you mean 'queues'?"),
        ({1: 2}, "is no key of a filter; there are status, queues"),
        ({"failed_from": "2h"}, "2h is an age, not a date"),
        ({"age_min": "2026-11-01"}, "must be an age"),
        ({"age_max": 0}, "must be an age"),
        ({"failed_until": 20261101}, "must be a datetime"),
        ({"queues": None}, "must be a text"),
        ({"attempts_min": 1.0}, "must be a whole number"),
    ],
)
def test_json_that_is_no_filter_is_refused(value, told):
    with pytest.raises(InvalidSetting) as caught:
        Filter.from_json(value)
    assert told in str(caught.value)


def test_json_may_say_what_is_as_usual():
    assert Filter.from_json({"text": None, "failed_from": None, "queues": [], "status": ["unresolved"]}) == Filter()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "status:unresolved,archived",
        f"id:{ID},{'f' * 32}",
        "message:order-17",
        "queue:billing,orders",
        "group:zz,cd34",
        "type:order.placed",
        "type:order.*",
        "type:*",
        "source:error,other",
        "host:web-*",
        "host:web-1",
        "reason:MaxDelayedRetries,Poison",
        "queue:orders header.tenant:acme,other",
        "queue:orders header.tenant:* header.tries:3 header.share:1.5 header.is_new:true",
        'queue:orders header."a b:c":x header.nul:a\ufffdb',
        "exception:NoStock",
        "exception:shop.errors.NoStock",
        "exception:shop.*",
        "failed>=2026-11-16T12:00Z",
        "failed<2026-11-16T12:00:00.000001Z",
        "attempts:3",
        "attempts>2 attempts<4",
        "operation:12",
        "operation:12 outcome:failed-again,skipped",
        "NO SUCH",
        "ACME",
        "MüLLER",
        "such queue:orders customer attempts:3",
    ],
)
def test_a_message_that_fits_everything_is_meant(text):
    assert parse(text).matches(FACTS)


@pytest.mark.parametrize(
    "text",
    [
        "status:archived,resolved",
        f"id:{'f' * 32}",
        "message:order-1",
        "queue:order",
        "group:ab",
        "type:order",
        "type:Order.*",
        "type:placed",
        "source:erro",
        "host:web",
        "host:Web-*",
        "reason:Max",
        "queue:orders header.tenant:acm",
        "queue:orders header.Tenant:acme",
        "queue:orders header.gone:*",
        "queue:orders header.none:*",
        "queue:orders header.is_new:True",
        "queue:orders header.tenant:acme header.tries:4",
        "exception:Stock",
        "exception:nostock",
        "exception:errors.NoStock",
        "exception:shop",
        "exception:No*",
        "failed>=2026-11-16T12:00:00.000001Z",
        "failed<2026-11-16T12:00Z",
        "attempts>3",
        "attempts<3",
        "operation:13",
        "operation:13 outcome:failed-again",
        "operation:12 outcome:skipped",
        "MÜLLER",
        '"acme {"',
        "n_ such",
        "queue:orders attempts:4",
    ],
)
def test_a_message_that_does_not_fit_something_is_not_meant(text):
    assert not parse(text).matches(FACTS)


def test_what_has_no_name_fits_no_name():
    nameless = replace(FACTS, message_type=None, exception_type=None)
    assert parse("").matches(nameless)
    assert not parse("type:*").matches(nameless)
    assert not parse("exception:*").matches(nameless)


def test_patterns_need_no_more_reading():
    assert parse("type:order.*,mail").type_patterns == (Pattern("exact", "mail"), Pattern("prefix", "order."))
    assert parse("exception:KeyError,shop.*,shop.NoStock").exception_patterns == (
        Pattern("last-part", "KeyError"),
        Pattern("prefix", "shop."),
        Pattern("exact", "shop.NoStock"),
    )


def test_a_last_part_is_a_whole_one():
    assert Pattern("last-part", "Error").matches("Error")
    assert Pattern("last-part", "Error").matches("a.b.Error")
    assert not Pattern("last-part", "Error").matches("KeyError")
    assert not Pattern("exact", "Error").matches("a.Error")
