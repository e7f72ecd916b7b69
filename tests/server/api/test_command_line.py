# SPDX-License-Identifier: MIT
"""One test for all: what a command prints as JSON is what the API answers for the same thing.

Each line of the tables is a command and a request. Questions are asked in both ways of the same database, and the
answers are equal. Changes are made in both ways to two things that are alike, and the answers have the same form, with
the same words. A command that prints JSON and is in no table fails the test.
"""

import json

import pytest

from redrive.access import rights_of
from redrive.broker import Message
from redrive.cli.main import command_line
from redrive.pipeline import TaskState
from redrive.routes.route_file import route_of
from tests.commands import run_command
from tests.server.api.conftest import make_failures
from tests.server.api.pipeline_functions import make_pipeline
from tests.server.conftest import client_of
from tests.server.threaded import running_desk

QUESTIONS = {
    "queues": "GET /queues",
    "queues show orders": "GET /queues/orders",
    "peek full": "GET /queues/full/messages",
    "peek full --state scheduled": "GET /queues/full/messages?state=scheduled",
    "dead list full": "GET /queues/full%2F$dead/messages",
    "topics": "GET /topics",
    "topics show events": "GET /topics/events",
    "failed list --no-ingest": "GET /failures",
    "failed list --no-ingest --order newest status:any": "GET /failures?order=newest&q=status:any",
    "failed list --no-ingest --order last-failed": "GET /failures?order=last-failed",
    "failed list --no-ingest route:big status:any": "GET /failures?q=route:big+status:any",
    "failed show --no-ingest FAILURE": "GET /failures/FAILURE",
    "failed groups --no-ingest": "GET /groups",
    "failed groups --no-ingest --by queue status:any": "GET /groups?by=queue&q=status:any",
    "failed count --no-ingest queue:orders": "GET /failures/count?q=queue:orders",
    "failed count --no-ingest --by-status status:any": "GET /failures/statuses",
    "failed aside --no-ingest": "GET /asides",
    "operations list": "GET /operations",
    "operations list --open": "GET /operations?open=true",
    "operations show 1 --no-ingest": "GET /operations/1",
    "operations services": "GET /services",
    "operations lanes": "GET /lanes",
    "operations trail": "GET /audit",
    "operations trail --subject operation:1": "GET /audit?subject=operation:1",
    "operations trail --action redirect --since 2026-01-01": "GET /audit?action=redirect&since=2026-01-01T00:00Z",
    "redirects list": "GET /redirects",
    "routes": "GET /routes",
    "routes list": "GET /routes",
    "routes show big": "GET /routes/big",
    "routes dead big": "GET /routes/big/dead",
    "pipeline": "GET /pipelines",
    "pipeline list": "GET /pipelines",
    "pipeline show reports": "GET /pipelines/reports",
    "pipeline show TASK": "GET /tasks/TASK",
    "pipeline tasks reports": "GET /pipelines/reports/tasks",
    "pipeline tasks reports --state unknown": "GET /pipelines/reports/tasks?state=unknown",
    "pipeline stuck": "GET /stuck",
    "pipeline stuck reports": "GET /pipelines/reports/stuck",
    "pipeline history reports": "GET /pipelines/reports/history",
    "pipeline slots reports archive": "GET /pipelines/reports/destinations/archive/slots",
    "pipeline trace TASK": "GET /tasks/TASK/trace",
    "recover --dry-run --no-ingest queue:billing": ("POST /dry-runs", {"filter": "queue:billing"}),
    "archive --dry-run --no-ingest status:any": ("POST /dry-runs", {"filter": "status:any", "kind": "archive"}),
    "resolve --dry-run --no-ingest queue:billing": ("POST /dry-runs", {"filter": "queue:billing", "kind": "resolve"}),
    "restore --dry-run --no-ingest queue:billing": ("POST /dry-runs", {"filter": "queue:billing", "kind": "restore"}),
    "edit --dry-run FAILURE --no-ingest --replace one=1": (
        "POST /previews",
        {"ids": ["FAILURE"], "transform": {"replace": [["one", "1"]]}},
    ),
    'routes test big {"total":250}': ("POST /routes/big/test", {"body": '{"total":250}'}),
    "history sent": "GET /series?metric=sent",
    "workers": "GET /workers",
    "tokens": "GET /tokens",
    "users": "GET /users",
    "redactions": "GET /redactions",
    "webhooks": "GET /webhooks",
    "attention": "GET /attention",
}
"""Commands and requests that ask the same."""

CHANGES = (
    ("queues declare new-SIDE --max-delivery-count 3", "PUT /queues/new-SIDE", {"max_delivery_count": 3}),
    ("queues update new-SIDE --max-delivery-count 4", "PATCH /queues/new-SIDE", {"max_delivery_count": 4}),
    ("send new-SIDE one", "POST /queues/new-SIDE/messages", {"messages": [{"body": "one"}]}),
    ("send new-SIDE one --delay 1h", "POST /queues/new-SIDE/messages", {"messages": [{"body": "1"}], "delay": 3600}),
    ("cancel new-SIDE SCHEDULED", "DELETE /queues/new-SIDE/messages/SCHEDULED", None),
    ("queues purge new-SIDE --yes", "POST /queues/new-SIDE/purge", None),
    ("dead resubmit new-SIDE --yes", "POST /queues/new-SIDE/resubmit", {}),
    ("dead purge new-SIDE --yes", "POST /queues/new-SIDE%2F$dead/purge", None),
    ("redirects add new-SIDE full", "PUT /redirects/new-SIDE", {"to": "full"}),
    ("redirects remove new-SIDE", "DELETE /redirects/new-SIDE", None),
    ("queues delete new-SIDE --yes", "DELETE /queues/new-SIDE", None),
    ("topics declare news-SIDE", "PUT /topics/news-SIDE", {}),
    ("topics update news-SIDE --keep-unmatched yes", "PATCH /topics/news-SIDE", {"keep_unmatched": True}),
    ("topics subscribe news-SIDE all", "PUT /topics/news-SIDE/subscriptions/all", {}),
    ("topics unsubscribe news-SIDE all --yes", "DELETE /topics/news-SIDE/subscriptions/all", None),
    ("topics delete news-SIDE --yes", "DELETE /topics/news-SIDE", None),
    ("ingest", "POST /ingest", {}),
    ("failed note operation:OPERATION seen", "POST /notes", {"subject": "operation:OPERATION", "text": "seen"}),
    ("failed drop-note NOTE", "DELETE /notes/NOTE", None),
    ("failed assign GROUP ann", "PUT /groups/GROUP/state", {"owner": "ann"}),
    ("failed snooze GROUP 2099-01-01", "PUT /groups/GROUP/state", {"snoozed_until": "2099-01-01T00:00:00Z"}),
    ("failed wake GROUP", "PUT /groups/GROUP/state", {"snoozed_until": None}),
    ("failed reimport", "POST /asides/reimport", {}),
    ("failed sweep --older-than 30d --yes", "POST /sweep", {"older_than": 2_592_000}),
    (
        "archive --id FAILURE --yes --detach --no-ingest --reason odd",
        "POST /operations",
        {"ids": ["FAILURE"], "kind": "archive", "reason": "odd"},
    ),
    ("operations pause OPERATION", "POST /operations/OPERATION/pause", {}),
    ("operations resume OPERATION --detach --no-ingest", "POST /operations/OPERATION/resume", {}),
    ("operations set-rate OPERATION 5", "PATCH /operations/OPERATION", {"rate": 5}),
    ("operations cancel OPERATION --yes", "POST /operations/OPERATION/cancel", {}),
    ("operations acknowledge OPERATION", "POST /operations/OPERATION/acknowledge", None),
    ("routes pause way-SIDE", "POST /routes/way-SIDE/pause", {}),
    ("routes resume way-SIDE", "POST /routes/way-SIDE/resume", None),
    ("routes replay way-SIDE --yes", "POST /routes/way-SIDE/replay", {}),
    ("routes drain way-SIDE", "POST /routes/way-SIDE/drain", {}),
    (
        "tokens create SIDE --role operator --queue orders --expires 1h",
        "POST /tokens",
        {"name": "SIDE", "role": "operator", "queues": ["orders"], "expires_in": 3600},
    ),
    ("tokens revoke TOKEN", "DELETE /tokens/TOKEN", None),
    ("users remove SIDE --yes", "DELETE /users/SIDE", None),
    ("webhooks add SIDE http://127.0.0.1:9/", "POST /webhooks", {"name": "SIDE", "url": "http://127.0.0.1:9/"}),
    ("webhooks test SIDE", "POST /webhooks/SIDE/test", None),
    ("webhooks remove SIDE", "DELETE /webhooks/SIDE", None),
    ("redactions add header x-SIDE", "POST /redactions", {"kind": "header", "value": "x-SIDE"}),
    ("redactions remove RULE", "DELETE /redactions/RULE", None),
    ("pipeline hold reports lab", "POST /pipelines/reports/destinations/lab/hold", {}),
    ("pipeline release reports lab", "POST /pipelines/reports/destinations/lab/release", {}),
    (
        "pipeline resolve TASK --item 1 --as sent",
        "POST /tasks/TASK/resolve",
        {"items": [1], "arrived": True},
    ),
)
"""Commands and requests that do the same, one after the other; SIDE is who does it."""

OF_THE_MOMENT = ("sent_per_minute", "completed_per_minute", "failed_per_minute", "is_read")
SPENT = "/queues/spent%2F$dead/messages"

ELSEWHERE = {
    "dead show": "a test of its own below, as are the next ones",
    "failed export": "below: lines of JSON",
    "trace": "below: it goes on while it is asked for",
    "pipeline cancel": "the command takes several tasks, and answers with all of them; below",
    "pipeline resend": "as cancel",
    "pipeline revive": "as cancel",
    "pipeline send-now": "as hold: it has the same answer; what waits is sent once, so only one of both can do it",
    "routes remove": "as drain, which ends it in the same way",
    "failed check": "compares all rows with their counts: for the machine itself",
    "operations run": "runs until it is stopped",
    "operations watch": "watches until it is over; GET /operations/{number} is what it shows",
    "pipeline check": "about a file of the machine",
    "pipeline submit": "needs the functions of the pipeline; its own path receives submissions over HTTP",
    "policies check": "about a file of the machine",
    "policies preview": "about a file of the machine",
    "users add": "below: it reads the password from standard input",
    "users password": "as users add",
    "users rights": "as users add: of a person who is there",
    "receive": "locks messages for whoever handles them, which is a worker",
    "routes add": "about a file of the machine; PUT /routes/{name} takes one route",
    "routes check": "about a file of the machine",
    "routes tap": "a stream",
}
"""Commands that are not in the tables, and why."""


async def _fill(desk):
    await make_failures(desk, "orders")
    await make_failures(desk, "billing", bodies=["one", "two"], error=KeyError)
    await make_failures(desk, "shipping")
    await make_pipeline(desk, [b"one", b"unknown", b"unknown ", b"lab-1"])
    await desk.broker.declare_topic("events")
    await desk.broker.subscribe("events", "all", "body.total > 100")
    await desk.broker.declare("full")
    await desk.broker.send_many("full", ["1", "2", b"\xff"])
    await desk.broker.schedule("full", "later", 3_600)
    (delivery,) = await desk.broker.receive("full")
    await delivery.dead_letter("odd", "by hand")
    await desk.broker.declare("spent")
    await desk.broker.send_many("spent", ["1", "2", "3", "4"])
    for each in await desk.broker.receive("spent", max_messages=4):
        await each.dead_letter("odd", "by hand")
    await desk.broker.send("error", Message(b"what is this", id="odd"))
    await desk.recovery.ingest()
    operations = [await desk.recovery.recover(f"queue:{each}", at=3_600) for each in ("orders", "shipping")]
    await desk.recovery.note(f"operation:{operations[0].number}", "wait for it")
    await desk.recovery.redirect("orders", "billing")
    await desk.access.create_token("ci", rights_of("viewer", ["orders"]), actor="ann")
    for side in ("cli", "api"):
        await desk.access.add_user(side, "correct horse battery", rights_of("admin"), actor="ann")
    await desk.access.add_user("ann", "correct horse battery", rights_of("admin"), actor="ann")
    await desk.notifications.add("chat", "https://hooks.example.com/1", actor="ann")
    await desk.access.redactions.add("pattern", "never-there", actor="ann")
    for name in ("big", "way-cli", "way-api"):
        parts = {"source": {"kind": "queue", "queue": "orders"}, "sender": {"kind": "queue", "queue": "billing"}}
        await desk.routes.add(route_of({"name": name, **parts}))
    failed = await desk.recovery.failed("queue:billing")
    tasks = [each for each in await desk.pipelines.stuck("reports") if each.state is TaskState.UNKNOWN]
    return {
        f"{name}-{side}": found[number]
        for number, side in enumerate(("cli", "api"))
        for name, found in {
            "FAILURE": [each.id for each in failed],
            "GROUP": [each.group for each in failed],
            "OPERATION": [each.number for each in operations],
            "TASK": [each.id for each in tasks],
        }.items()
    }


@pytest.fixture
def both(tmp_path, monkeypatch):
    """Return what asks in both ways: a command, and a request."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRIVE_URL", f"sqlite:///{tmp_path}/both.db")
    with running_desk(f"sqlite:///{tmp_path}/both.db") as (desk, run):
        names = run(_fill(desk))
        client = client_of(desk)

        def request(method, path, body=None):
            return run(client.request(method, path, json=body))

        def ask(command, asked, body=None):
            ran = run_command(*_sided(names, command, "cli").split(" "), "--json")
            assert ran.exit_code == 0, (command, ran.output)
            method, _, path = _sided(names, asked, "cli").partition(" ")
            answer = request(method, path, None if body is None else json.loads(_sided(names, json.dumps(body), "cli")))
            assert answer.status_code == 200, (asked, answer.text)
            return json.loads(ran.stdout), answer.json()

        ask.names, ask.request = names, request
        yield ask


def test_the_answer_to_a_question_is_the_same(both):
    for command, asked in QUESTIONS.items():
        request, body = (asked, None) if isinstance(asked, str) else asked
        for _ in range(2):  # between the two answers a minute of the history may have begun
            said, answered = map(_without_rates, both(command, request, body))
            if said == answered:
                break
        assert said == answered, command


def test_the_answer_to_a_change_has_the_same_form(both):
    for command, request, body in CHANGES:
        said = run_command(*_sided(both.names, command, "cli").split(" "), "--json")
        assert said.exit_code == 0, (command, said.output)
        first = json.loads(said.stdout)
        _remember(both, first, "cli")
        method, _, path = _sided(both.names, request, "api").partition(" ")
        given = None if body is None else json.loads(_sided(both.names, json.dumps(body), "api"))
        answer = both.request(method, path, given)
        assert answer.status_code == 200, (request, answer.text)
        _remember(both, answer.json(), "api")
        assert _form(first) == _form(answer.json()), command


def _without_rates(answer):
    """Return an answer without what differs from one moment to the next."""
    for each in answer["destinations"] if "by_destination" in answer else ():
        for name in OF_THE_MOMENT:
            del each[name]
    return answer


def _sided(names, text, side):
    for name, value in names.items():
        text = text.replace(name.removesuffix(f"-{side}"), str(value))
    return text.replace("SIDE", side)


def _remember(both, answer, side):
    """Keep the numbers that later lines name."""
    if "first_sequence" in answer:
        both.names[f"SCHEDULED-{side}"] = answer["first_sequence"]
    if "token" in answer:
        both.names[f"TOKEN-{side}"] = answer["id"]
    if answer.get("kind") == "header":
        both.names[f"RULE-{side}"] = answer["number"]
    if "text" in answer:
        both.names[f"NOTE-{side}"] = answer["number"]


def _form(value):
    """Return what a view has, without what differs between two things that are alike."""
    if isinstance(value, dict):
        return {name: _form(each) for name, each in value.items() if name not in ("plan", "unknown_ids")}
    if isinstance(value, list):
        return [_form(each) for each in value[:1]]
    return "number or text" if isinstance(value, str | int | float) or value is None else type(value).__name__


def test_every_command_that_prints_json_is_compared():
    known = {*QUESTIONS, *(command for command, _, _ in CHANGES), *ELSEWHERE}
    missing = [
        " ".join(path)
        for path in _commands(command_line())
        if not any(f"{each} ".startswith(f"{' '.join(path)} ") for each in known)
    ]
    assert missing == []


def _commands(command, path=()):
    if any("--json" in each.opts for each in command.params) and path:
        yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, (*path, name))


# --- those that differ in form


def test_a_dead_letter_is_shown_the_same(both):
    (dead,) = both.request("GET", "/queues/full%2F$dead/messages").json()
    said, answered = both(f"dead show full {dead['sequence']}", f"GET /queues/full%2F$dead/messages/{dead['sequence']}")
    assert said == answered


def test_dead_letters_are_sent_again_and_removed_by_number_in_the_same_form(both):
    first, second, third, fourth = (each["sequence"] for each in both.request("GET", SPENT).json())
    for command, mine, path, other in (
        ("resubmit", first, "/queues/spent/resubmit", second),
        ("purge", third, "/queues/spent%2F$dead/purge", fourth),
    ):
        said = run_command("dead", command, "spent", str(mine), "--yes", "--json")
        assert said.exit_code == 0, said.output
        assert json.loads(said.stdout) == both.request("POST", path, {"sequences": [other]}).json()
    assert both.request("GET", SPENT).json() == []


def test_an_export_has_the_same_lines(both):
    ran = run_command("failed", "export", "--no-ingest")
    answered = both.request("GET", "/failures/export")
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [
        json.loads(line) for line in answered.text.splitlines()
    ]


def test_a_task_that_is_changed_by_itself_is_the_same_as_among_several(both):
    said = json.loads(run_command("pipeline", "resend", both.names["TASK-cli"], "--items", "unknown", "--json").stdout)
    cancelled = both.request("POST", f"/tasks/{both.names['TASK-cli']}/cancel", {}).json()
    assert _form(said["changed"][0]) == _form(cancelled)


def test_a_user_is_added_and_gets_a_password_in_the_same_form(both):
    password = "correct horse battery"  # noqa: S105 - for tests
    for command, method, path in (("add", "POST", "/users"), ("password", "PUT", "/users/bob-api/password")):
        said = run_command("users", command, "bob-cli", "--json", stdin=f"{password}\n")
        assert said.exit_code == 0, said.output
        body = {"password": password, **({"name": "bob-api"} if command == "add" else {})}
        assert _form(json.loads(said.stdout)) == _form(both.request(method, path, body).json())
    said = run_command("users", "rights", "bob-cli", "--role", "operator", "--json")
    assert _form(json.loads(said.stdout)) == _form(
        both.request("PUT", "/users/bob-api/rights", {"role": "operator"}).json()
    )


def test_a_journey_is_the_same(both):
    message = both.request("GET", "/failures").json()[0]["message_id"]
    said, answered = both(f"trace {message}", f"GET /journeys/{message}")
    assert _form(said) == _form(answered)
    assert [each["title"] for each in said["nodes"]] == [each["title"] for each in answered["nodes"]]
    assert both.request("GET", "/journeys/none").json()["code"] == "journey-not-found"
