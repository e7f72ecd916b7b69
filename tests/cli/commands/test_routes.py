# SPDX-License-Identifier: MIT
"""``redrive routes``, run as a person runs it; ``run`` and ``tap`` with real processes, which say what they do."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from itertools import count

import httpx
import pytest

from redrive import connect, connect_blocking, open_routes
from redrive.broker import Message
from redrive.cli.commands.routes.trial import _print_legs
from redrive.routes import RouteRunner, from_queue, match, route, to_debug
from tests.patience import PATIENCE_S

URL = "sqlite:///redrive.db"
FILE = """
[receivers.orders]
kind = "queue"
queue = "orders"

[routes.big]
source = "orders"
filters = [{ kind = "match", expression = "body.total > 100" }]
sender = { kind = "queue", queue = "big" }

[routes.all]
source = "orders"
sender = { kind = "file", path = "all.jsonl" }
"""


@pytest.fixture
def write(tmp_path):
    """Write a file of routes, and return its name."""

    def writer(text=FILE, name="routes.toml"):
        (tmp_path / name).write_text(text)
        return name

    return writer


@pytest.fixture
def queues(ok):
    for queue in ("orders", "big"):
        ok("queues", "declare", queue)


@pytest.fixture
def added(ok, queues, write):  # noqa: ARG001 - their queues
    """Two routes of one source, stored."""
    ok("routes", "add", write())


def bury(*bodies, name="big"):
    """Let events be dead on a route."""

    async def work():
        async with connect(URL) as broker, open_routes(broker) as routes:
            queue = (await routes.show(name)).queue
            await broker.send_many(queue.rpartition("/")[0], bodies)
            for one in await broker.receive(queue, max_messages=len(bodies)):
                await one.dead_letter("Rejected", "sender (queue): no room")

    asyncio.run(work())


# --- files


def test_a_file_is_checked_without_a_database_and_makes_none(run, write, tmp_path):
    ran = run("routes", "check", write())
    assert (ran.exit_code, ran.stdout) == (0, "routes.toml: 2 routes: valid\n")
    assert "there is no database redrive.db, so queues and other routes were not looked at" in ran.stderr
    assert not (tmp_path / "redrive.db").exists()


@pytest.mark.usefixtures("added")
def test_a_check_says_what_adding_would_change_and_changes_nothing(ok, read, write):
    assert ok("routes", "check", write()).splitlines()[1:] == ["unchanged  big", "unchanged  all"]
    other = FILE.replace("> 100", "> 200").replace("[routes.all]", "[routes.every]")
    changed = read("routes", "check", write(other), "--only")
    assert [(each["change"], each["route"], each["parts"]) for each in changed["changes"]] == [
        ("changed", "big", ["filters"]),
        ("added", "every", []),
        ("removed", "all", []),
    ]
    assert [each["name"] for each in read("routes")] == ["all", "big"]


@pytest.mark.usefixtures("queues")
def test_adding_says_what_it_changed(run, ok, write):
    ran = run("routes", "add", write())
    assert (ran.exit_code, ran.stdout) == (0, "added      big\nadded      all\n")
    assert "start one: redrive routes run" in ran.stderr
    assert run("routes", "add", write()).output == "unchanged  big\nunchanged  all\n"
    only = FILE.partition("[routes.all]")[0].replace("sender =", "max_attempts = 3\nsender =")
    assert ok("routes", "add", write(only), "--only") == "changed    big: max_attempts\nremoved    all\n"
    assert "max_attempts = 3" in ok("routes", "show", "big")


def test_adding_creates_the_database(ok, write):
    text = FILE.partition("[routes.big]")[0].replace("queue", "timer").replace('timer = "orders"', "every = 5")
    ok("routes", "add", write(text + '[routes.tick]\nsource = "orders"\nsender = { kind = "log" }\n'))
    assert "tick" in ok("routes", "list")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (FILE.replace("queue", "kew", 1), "routes.toml, line 3: kind='kew': is no kind of receivers"),
        (FILE.replace("> 100", "="), "routes.toml, line 8: "),
        (FILE + "[[", "routes.toml, line 14: this is not TOML"),
        ("", "routes.toml has no routes; write [routes.some-name]"),
    ],
    ids=count(),
)
@pytest.mark.usefixtures("queues")
def test_a_file_that_cannot_be_used_is_refused_with_its_line(refused, write, text, problem):
    for command in ("check", "add"):
        assert problem in refused("routes", command, write(text), status=2)


YAML = """routes:
  big:
    source: {kind: queue, queue: orders}
    sender: {kind: queue, queue: big}
"""


@pytest.mark.parametrize("name", ["routes.toml", "routes.yaml"])
def test_what_does_not_fit_the_database_is_refused_with_its_line(ok, refused, write, name):
    ok("queues", "declare", "orders")
    text = FILE if name == "routes.toml" else YAML
    line = 9 if name == "routes.toml" else 4
    for command in ("check", "add"):
        said = refused("routes", command, write(text, name), status=2)
        assert f"{name}, line {line}: route 'big', sender: there is no queue 'big'; declare it first" in said
    assert "redrive queues declare big" in said


@pytest.mark.usefixtures("added")
def test_a_problem_with_a_stored_route_is_blamed_on_the_new_one(refused, write):
    early = FILE.replace("[routes.big]", "[routes.aaa]").partition("[routes.all]")[0]
    text = early.replace('queue = "orders"', 'queue = "orders"\ndelivery = "linked"')
    said = refused("routes", "check", write(text), status=2)
    assert "line 8: route 'aaa', source.delivery: it reads the same source as route 'all' with another delivery" in said


def test_nothing_is_removed_by_a_file_without_routes(refused, write):
    assert "to end a route: redrive routes remove NAME" in refused("routes", "add", write(""), "--only", status=2)


@pytest.mark.usefixtures("added")
def test_a_route_that_was_ending_runs_again(ok, write):
    bury("x")
    ok("routes", "replay", "big", "--yes")
    ok("routes", "drain", "big")
    assert ok("routes", "add", write()) == "changed    big: runs again\nunchanged  all\n"


# --- looking


@pytest.mark.usefixtures("added")
def test_routes_are_listed(ok, read):
    bury("x", "y")
    heading, first, second = ok("routes").splitlines()
    assert heading.split() == ["route", "state", "source", "sender", "delivery", "waiting", "oldest", "dead"]
    assert first.split()[:6] == ["all", "running", "queue", "orders", "file", "all.jsonl"]
    assert second.split() == ["big", "running", "queue", "orders", "queue", "big", "durable", "-", "-", "2"]
    listed = read("routes")  # which has instants, where the table has ages
    assert read("routes", "list") == listed
    found = listed[1]
    assert (found["name"], found["dead"], found["guarantee"]) == ("big", 2, "at_least_once")
    assert found["source"] == {"kind": "queue", "address": "orders", "text": "queue(queue='orders')"}


@pytest.mark.usefixtures("queues")
def test_no_routes_yet_says_how_to_add_some(ok):
    assert ok("routes") == "no routes yet; add some: redrive routes add FILE\n"
    assert "no routes of application 'shop' yet" in ok("routes", "--application", "shop")


@pytest.mark.usefixtures("added")
def test_a_route_is_shown_with_its_history(ok, read, write):
    ok("routes", "add", write(FILE.replace("> 100", "> 200")))
    ok("routes", "pause", "big", "--reason", "the warehouse moves")
    shown = ok("routes", "show", "big")
    assert shown.startswith("route big is paused: the warehouse moves\n  queue(queue='orders')\n  | match(")
    assert "\n  >> queue(queue='big')\n" in shown
    assert re.search(r"version +2, changed", shown)
    history = read("routes", "show", "big")["history"]
    assert [(each["version"], each["state"]) for each in history] == [(2, "paused"), (2, "running"), (1, "running")]
    assert ["> 100" in each["definition"] for each in history] == [False, False, True]


def test_secrets_are_not_shown(ok, read, run, write):
    text = FILE.replace('{ kind = "queue", queue = "big" }', WEBHOOK)
    ok("queues", "declare", "orders")
    ok("routes", "add", write(text))
    ok("routes", "add", write(text.replace("> 100", "> 200")))
    for command in (("list",), ("show", "big"), ("test", "big", "{}"), ("pause", "big"), ("check", "routes.toml")):
        for ran in (run("routes", *command), run("routes", *command, "--json")):
            assert ran.exit_code == 0
            assert "hunter2" not in ran.output
    assert read("routes")[1]["sender"]["destination"] == "https://example.com:443"


WEBHOOK = '{ kind = "webhook", url = "https://example.com/x", headers = { Authorization = "hunter2" } }'


@pytest.mark.usefixtures("added")
def test_dead_events_are_listed_and_replayed_on_their_route_alone(ok, read, refused):
    bury('{"total": 101}', '{"total": 102}', '{"total": 103}')
    assert "no room" in ok("routes", "dead", "big", "--max", "1")
    assert [each["dead_letter"]["reason"] for each in read("routes", "dead", "big")] == ["Rejected"] * 3
    assert "add --yes" in refused("routes", "replay", "big")
    assert ok("routes", "replay", "big", "--max", "1", "--yes") == "replayed 1 dead event on route big\n"
    assert read("routes", "replay", "big", "--yes")["resubmitted"] == 2
    assert [(each["waiting"], each["dead"]) for each in read("routes")] == [(3, 0), (3, 0)]
    assert ok("routes", "dead", "big") == "route big has no dead events\n"


@pytest.mark.usefixtures("added")
def test_a_source_that_was_changed_leaves_a_queue_behind_which_is_named(ok, run, write):
    ok("queues", "declare", "parcels")
    bury("x")
    ok("routes", "add", write(FILE.replace('\nqueue = "orders"', '\nqueue = "parcels"')))
    ran = run("routes", "dead", "big")
    assert "older ones may be in routes/default/queue/orders/big, which it had before" in ran.stderr


@pytest.mark.usefixtures("added")
def test_direct_delivery_has_no_dead_events(ok, refused, write):
    text = FILE.replace('queue = "orders"', 'queue = "orders"\ndelivery = "direct"')
    ok("routes", "add", write(text))
    for command in (("dead", "big"), ("replay", "big", "--yes")):
        assert "its delivery is direct, which stores nothing" in refused("routes", *command, status=6)
    assert "its events are lost meanwhile" in ok("routes", "pause", "big")


# --- controlling


@pytest.mark.usefixtures("added")
def test_a_route_is_paused_resumed_and_drained(ok, read, refused):
    assert ok("routes", "pause", "big") == "route big is paused: its events are stored, and wait\n"
    assert ok("routes", "resume", "big") == "route big is running; nothing waits\n"
    bury("x")
    ok("routes", "replay", "big", "--yes")
    said = ok("routes", "drain", "big", "--within", "5m")
    assert said == (
        "route big is being drained; 1 event waits; a process that runs routes finishes it: redrive routes run\n"
    )
    assert "it is draining" in refused("routes", "pause", "big", status=6)
    assert read("routes", "resume", "big")["state"] == "running"
    assert ok("routes", "drain", "all") == (
        "route all is being drained; 1 event waits; a process that runs routes finishes it: redrive routes run\n"
    )


@pytest.mark.usefixtures("added")
def test_a_route_without_events_is_drained_at_once(ok, read):
    assert ok("routes", "drain", "big") == "route big is removed\n"
    assert [each["name"] for each in read("routes")] == ["all"]
    assert read("routes", "drain", "all")["state"] == "removed"


@pytest.mark.usefixtures("added")
def test_removing_says_what_becomes_of_events_that_wait(ok, run, read, monkeypatch):
    bury("x", "y")
    ok("routes", "replay", "big", "--yes")
    monkeypatch.setattr("redrive.cli.output.prompt.is_interactive", lambda: True)
    asked = run("routes", "remove", "big", stdin="n\n")
    assert asked.exit_code == 1
    assert "Remove route big? 2 events that wait become dead letters." in asked.stderr
    said = ok("routes", "remove", "big", "--yes")
    assert said == "route big is removed, with 2 dead events: redrive dead list routes/default/queue/orders/big\n"
    assert [each["dead_letter"]["reason"] for each in read("dead", "list", "routes/default/queue/orders/big")] == [
        "RouteRemoved"
    ] * 2
    ok("routes", "add", "routes.toml")
    ok("routes", "replay", "big", "--max", "1", "--yes")  # one of those that it left behind
    assert "1 event that waits becomes a dead letter." in run("routes", "remove", "big", stdin="n\n").stderr


@pytest.mark.parametrize(
    ("command", "problem", "status"),
    [
        (("show", "bgi"), "has no route 'bgi'; did you mean 'big'? Otherwise redrive routes list", 3),
        (("pause", "big", "--application", "shop"), "application 'shop' has no route 'big'", 3),
        (("remove", "nowhere", "--yes"), "has no route 'nowhere'; redrive routes list", 3),
        (("tap", "nowhere"), "has no route 'nowhere'", 3),
        (("drain", "big", "--within", "soon"), "write seconds as a number", 2),
        (("resume", "all", "-a", "x"), "application 'x' has no route 'all'", 3),
        (("check", "nowhere.toml"), "nowhere.toml, line 1: it cannot be read", 2),
        (("run", "--listen", "nowhere"), "listen='nowhere': must be", 2),
        (("test", "big"), "say which event: EVENT, - for standard input", 2),
        (("test", "bgi", "x", "--definition", "routes.toml"), "did you mean 'big'?", 3),
    ],
    ids=count(),
)
@pytest.mark.usefixtures("added")
def test_mistakes_are_named_with_what_helps(refused, command, problem, status):
    assert problem in refused("routes", *command, status=status)


@pytest.mark.usefixtures("added")
def test_an_application_must_be_named_if_several_have_a_route_of_that_name(ok, read, refused, write):
    ok("queues", "declare", "parcels")
    theirs = FILE.replace('queue = "orders"', 'queue = "parcels"')
    ok("routes", "add", write(f'application = "shop"\n{theirs}'))
    said = refused("routes", "show", "big", status=2)
    assert "default, shop each have a route 'big'; say which you mean: --application NAME" in said
    assert "parcels" in ok("routes", "show", "big", "--application", "shop")
    assert "parcels" in ok("routes", "--application", "shop", "show", "big")
    assert [each["application"] for each in read("routes", "--application", "shop")] == ["shop", "shop"]
    assert ok("routes").splitlines()[0].split()[:2] == ["route", "application"]
    ok("routes", "remove", "big", "--application", "default", "--yes")
    assert read("routes", "pause", "big")["application"] == "shop"  # the only one now


# --- trying


@pytest.mark.usefixtures("added")
def test_an_event_on_trial_shows_every_step_and_is_not_sent(ok, read):
    assert ok("routes", "test", "big", '{"total": 250}').splitlines() == [
        "filter 1 (match): passed",
        '    {"total": 250}',
        "sender (queue): would send test:big",
        '    {"total": 250}',
    ]
    assert ok("routes", "test", "big", '{"total": 5}') == "filter 1 (match): consumed\n"
    assert "filter 1 (match): dead: ExpressionFailed" in ok("routes", "test", "big", "-", stdin="no JSON")
    steps = read("routes", "test", "big", '{"total": 250}', "--id", "42")["steps"]
    assert [each["outcome"] for each in steps] == ["passed", "would send 42:big"]
    assert steps[1]["messages"][0]["body"] == '{"total": 250}'
    assert read("queues", "show", "big")["ready"] == 0


def test_a_route_of_a_file_is_tried_without_a_database(ok, write, tmp_path):
    (tmp_path / "order.json").write_text('{"total": 250}')
    said = ok("routes", "test", "big", "--file", "order.json", "--definition", write())
    assert "would send test:big" in said
    assert not (tmp_path / "redrive.db").exists()


def test_a_function_beside_the_file_is_found(ok, write, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shop_rules.py").write_text("def is_ours(message):\n    return b'ours' in message.body\n")
    text = FILE.replace('"match", expression = "body.total > 100"', '"python", function = "shop_rules:is_ours"')
    assert "would send" in ok("routes", "test", "big", "ours", "--definition", write(text))
    assert ok("routes", "test", "big", "theirs", "--definition", write(text)) == "filter 1 (python): consumed\n"


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_tap_prints_what_happens_to_each_event(capsys, as_json):
    async with connect("sqlite:///:memory:") as broker, open_routes(broker) as routes:
        await broker.declare("in")
        await routes.add(route("a", source=from_queue("in")) | match("body.ok") >> to_debug("tap"))
        runner = RouteRunner(routes)
        running = asyncio.create_task(runner.run())
        following = asyncio.create_task(_print_legs(routes, await routes.show("a"), None, as_json=as_json))
        while not (await routes.ledger.revision()).taps:
            pass
        await runner.reload()
        await broker.send("in", Message(b'{"ok": true, "text": "\xc2\x9b31m"}', id="evil\x1b[2J"))
        said = ""
        while "\n" not in said:
            await broker.queues()  # gives the others their turn
            said += capsys.readouterr().out
        following.cancel()
        await asyncio.wait([following])
        runner.stop()
        await running
    assert "filter 1 (match)" in said
    assert "delivered" in said
    assert said.strip().isprintable()
    assert said.startswith('{"event": "evil\\u001b[2J"') == as_json


# --- processes


@pytest.fixture
def start(tmp_path):
    """Start ``redrive routes`` as a person would; it is gone after the test."""
    started = []

    def starter(*options):
        process = subprocess.Popen(
            [sys.executable, "-m", "redrive.cli", "routes", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
        started.append(process)
        return process

    yield starter
    for process in started:
        for _ in range(2):  # the second one ends it at once
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)


def told(stream, text):
    """Read what a process says until it says that."""
    return next(line for line in iter(stream.readline, "") if text in line)


HTTP = FILE.replace('kind = "queue"\nqueue = "orders"', 'kind = "http"\npath = "/orders"')


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.usefixtures("queues")
def test_routes_run_until_a_signal_and_end_well(start, write, tmp_path, how):
    process = start("run", write(HTTP), "--listen", "127.0.0.1:0")
    assert process.stderr.readline() == "runs 2 routes: all, big; Ctrl-C stops it\n"
    address = told(process.stderr, "HTTP receivers listen at ").split()[-1]
    assert httpx.post(f"{address}/orders", json={"total": 250}).status_code == 202
    with connect_blocking(URL) as broker:
        (delivery,) = broker.receive("big", wait=PATIENCE_S)
        assert delivery.body == b'{"total":250}'
    process.send_signal(how)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, "")
    assert [line for line in err.splitlines() if " INFO redrive.routes: " not in line] == []
    assert (tmp_path / "all.jsonl").read_text() == '{"total":250}\n'


@pytest.mark.usefixtures("added")
def test_routes_that_run_follow_changes(start, ok):
    process = start("run")
    assert "runs 2 routes: all, big" in process.stderr.readline()
    assert told(process.stderr, "big: version 1 is running")
    ok("routes", "pause", "big")
    assert told(process.stderr, "big: version 1 is paused")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.usefixtures("queues")
def test_without_routes_it_waits_for_some(start):
    process = start("run")
    assert process.stderr.readline().startswith("no routes yet, add some meanwhile: redrive routes add FILE")
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE_S) == ("", "")
    assert process.returncode == 0


def test_running_makes_no_database_without_a_file(refused, tmp_path):
    assert "there is no database redrive.db" in refused("routes", "run")
    assert list(tmp_path.iterdir()) == []


async def until_followed():
    """Wait until somebody follows a route."""
    async with connect(URL) as broker, open_routes(broker) as routes:
        while not (await routes.ledger.revision()).taps:
            pass


@pytest.mark.usefixtures("added")
def test_a_tap_ends_well_at_ctrl_c_and_leaves_nothing(start, read):
    process = start("tap", "big")
    assert process.stderr.readline() == "following route big, Ctrl-C ends it\n"
    asyncio.run(until_followed())
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE_S) == ("", "")
    assert process.returncode == 0
    assert [each["name"] for each in read("queues", "--all") if "taps" in each["name"]] == []
