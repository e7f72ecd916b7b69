# SPDX-License-Identifier: MIT
"""What a message, an exception, a note or an actor says cannot forge a line, move the cursor or turn letters round.

Every command there is runs on a database in which every text is hostile; a new command fails until it is here.
"""

import asyncio
import json
import shutil

import pytest
import typer

from redrive import connect, open_pipeline, open_recovery, open_routes
from redrive.broker import Message
from redrive.cli.main import app
from redrive.pipeline import OutcomeUnknown, Output, PipelineRunner, ShipmentRefused, TaskState, parse_pipeline
from redrive.recovery import Transform
from redrive.routes import from_queue, log, route, to_file

HOSTILE = "evil\nFORGED \x1b[2J\r\x9b31m\u202e\u2066\x07\x7f\u2028\x85\t" + "z" * 60
FAILED = {
    f"redrive-failed-{name}": HOSTILE
    for name in (
        *("queue", "exception-type", "exception-message", "source", "worker", "host", "message-type", "reason"),
        "description",
    )
}
TRACE = f'Traceback (most recent call last):\n  File "{HOSTILE}", line 3, in {HOSTILE}\nValueError: {HOSTILE}'
BODY = HOSTILE.replace("\nFORGED", "").encode()


def message(number, **headers):
    return Message(
        BODY,
        id=f"{number}{HOSTILE}",
        subject=HOSTILE,
        content_type=HOSTILE,
        correlation_id=HOSTILE,
        headers={HOSTILE: HOSTILE, **headers},
    )


async def fill(url):
    """Make a database in which every text that comes from outside is hostile."""
    async with connect(url) as broker:
        for queue in ("orders", "error", "by-hand"):
            await broker.declare(queue)
        await broker.send_many("orders", [message(number) for number in range(3)])
        await broker.schedule("orders", message("later"), 3_600)
        for one in await broker.receive("orders", max_messages=2):
            await one.dead_letter(HOSTILE, HOSTILE)
        told = FAILED | {"redrive-failed-stack-trace": TRACE}
        await broker.send_many("error", [message(number, **told) for number in range(4)])
        here = told | {"redrive-failed-queue": "orders"}
        await broker.send_many("error", [message(number, **here) for number in range(4, 8)])
        await broker.send("error", message("nobody knows what this is"))
        async with open_recovery(broker, classifiers={"evil": lambda *_: HOSTILE}) as recovery:
            await recovery.ingest()
            who = {"actor": HOSTILE, "reason": HOSTILE}
            found = await recovery.failed("queue:orders", limit=10)
            await recovery.recover([found[0].id, HOSTILE], key=HOSTILE, **who)
            while await recovery.step():
                pass
            await recovery.recover(HOSTILE_FILTER, at=3_600, **who)  # which nothing matches
            number = (await recovery.recover([found[1].id], at=3_600, **who)).number
            await recovery.pause(number, **who)
            await recovery.note(f"failure:{found[0].id}", HOSTILE, actor=HOSTILE)
            await recovery.note(f"operation:{number}", HOSTILE, actor=HOSTILE)
            await recovery.note(f"group:{found[0].group}", HOSTILE, actor=HOSTILE)
            await recovery.set_group_state(found[0].group, owner=HOSTILE, snoozed_until=3_600, **who)
            TASKS["group"] = found[0].group
            await recovery.edit(found[2].id, Transform(set_headers={HOSTILE: HOSTILE}), **who)
        await broker.send("error", message("new", **here))
        await broker.declare_topic("news", keep_unmatched=True)
        await broker.subscribe("news", "evil", {HOSTILE: HOSTILE})
        await broker.send("news", message("unmatched"))
        await add_routes(broker)
        await add_pipeline(broker)


PIPELINE = f"""
[pipeline]
name = "evil"
path = "/evil"
receive = "tests.cli.test_hostile_text:receive"
process = "tests.cli.test_hostile_text:process"
tries = 1
[destinations.lab]
transport = {{ kind = "call", function = "tests.cli.test_hostile_text:send" }}
guarantee = "at_most_once"
retry = []
[destinations.slow]
transport = {{ kind = "file", folder = {json.dumps(HOSTILE)} }}
timing = {{ every = "1d" }}
"""


def receive(submission):
    return [submission.body]


def process(report):
    if b"boom" in report.body:
        raise ValueError(HOSTILE)
    yield Output("slow" if b"slow" in report.body else "lab", report.items)


def send(shipment):
    if b"lost" in shipment.body:
        return OutcomeUnknown(HOSTILE)
    return ShipmentRefused(HOSTILE) if b"bad" in shipment.body else HOSTILE


async def add_pipeline(broker):
    async with open_pipeline(broker, parse_pipeline(PIPELINE)) as pipeline:
        for number, body in enumerate(("good", "bad", "bad again", "lost", "boom", "slow")):
            await pipeline.submit(body, key=f"{number}{HOSTILE}")
        runner = PipelineRunner(pipeline, listen="127.0.0.1:0")
        running = asyncio.create_task(runner.run())
        while await pipeline.tasks(states=[TaskState.READY]):
            pass
        runner.stop()
        await running
        await pipeline.hold("evil", "slow", actor=HOSTILE, reason=HOSTILE)
        TASKS.update({each.state.word: each.id for each in await pipeline.tasks("evil")})
        TASKS.update({each.stage: each.id for each in await pipeline.tasks("evil", states=[TaskState.WAITING])})


TASKS: dict[str, str] = {}
"""Tasks by their states, as commands are given them: ``@failed``."""


async def add_routes(broker):
    async with open_routes(broker) as routes:
        await routes.add(
            route("evil", source=from_queue("by-hand")) | log(HOSTILE) >> to_file(HOSTILE),
            route("other", source=from_queue("by-hand")) >> to_file(HOSTILE),
        )
        await routes.pause("evil", reason=HOSTILE)
        await broker.send("routes/default/queue/by-hand", message("leg"))
        for one in await broker.receive("routes/default/queue/by-hand/evil"):
            await one.dead_letter(HOSTILE, HOSTILE)


HOSTILE_FILTER = "text:'" + HOSTILE.replace("'", "") + "'"


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    file = tmp_path_factory.mktemp("hostile") / "redrive.db"
    asyncio.run(fill(f"sqlite:///{file}"))
    return file


@pytest.fixture(autouse=True)
def _database(filled, tmp_path):
    shutil.copy(filled, tmp_path / "redrive.db")
    text = json.dumps(HOSTILE)
    (tmp_path / "evil-routes.toml").write_text(
        f'[routes.evil]\nsource = {{ kind = "queue", queue = "orders" }}\nsender = {{ kind = "file", path = {text} }}\n'
    )
    (tmp_path / "bad-routes.toml").write_text(f"[routes.{text}]\nsource = {text}\n{text} = {text}\n")
    (tmp_path / "evil-pipeline.toml").write_text(PIPELINE)
    (tmp_path / "bad-pipeline.toml").write_text(f"[pipeline]\nname = {text}\nprocess = {text}\n{text} = {text}\n")
    (tmp_path / "evil.toml").write_text(f"[policies.{json.dumps(HOSTILE)}]\nkind = {json.dumps(HOSTILE)}\n")


COMMANDS = {
    "cancel": [("cancel", "orders", "999"), ("cancel", "orders", "4")],
    "queues": [("queues",), ("queues", "--all")],
    "queues declare": [("queues", "declare", "orders"), ("queues", "declare", HOSTILE)],
    "queues delete": [("queues", "delete", "orders", "--yes"), ("queues", "delete", HOSTILE, "--yes")],
    "queues purge": [("queues", "purge", "orders", "--yes"), ("queues", "purge", HOSTILE, "--yes")],
    "queues show": [("queues", "show", "orders"), ("queues", "show", HOSTILE)],
    "queues update": [("queues", "update", "orders", "--lock-duration", HOSTILE)],
    "topics": [("topics",)],
    "topics declare": [("topics", "declare", "alarms"), ("topics", "declare", HOSTILE)],
    "topics update": [("topics", "update", "news", "--max-message-bytes", HOSTILE)],
    "topics subscribe": [
        ("topics", "subscribe", "news", "all"),
        ("topics", "subscribe", "news", HOSTILE),
        ("topics", "subscribe", "news", "x", "--rule", HOSTILE),
        ("topics", "subscribe", "news", "x", "--equals", HOSTILE),
        ("topics", "subscribe", "news", "x", "--equals", f"{HOSTILE}={HOSTILE}"),
    ],
    "topics show": [("topics", "show", "news"), ("topics", "show", HOSTILE)],
    "topics unsubscribe": [("topics", "unsubscribe", "news", "evil", "--yes")],
    "topics delete": [("topics", "delete", "news", "--yes"), ("topics", "delete", HOSTILE, "--yes")],
    "send": [("send", "orders", HOSTILE, "--id", HOSTILE), ("send", "orders", "x", "--header", HOSTILE)],
    "receive": [
        ("receive", "orders", "--complete"),
        ("receive", "orders/$dead", "--complete", "--max", "5"),
        ("receive", "orders", "--dead-letter", HOSTILE),
        ("receive", "orders", "--complete", "--session", HOSTILE),
    ],
    "peek": [("peek", "orders"), ("peek", "orders/$dead"), ("peek", "error")],
    "dead list": [("dead", "list", "orders")],
    "dead show": [("dead", "show", "orders", "1"), ("dead", "show", "orders", "77")],
    "dead resubmit": [("dead", "resubmit", "orders", "--yes")],
    "dead purge": [("dead", "purge", "orders", "--yes")],
    "ingest": [("ingest",), ("ingest", "--dead"), ("ingest", "--queue", HOSTILE)],
    "failed list": [
        ("failed", "list"),
        ("failed", "list", "status:any"),
        ("failed", "list", HOSTILE_FILTER),
        ("failed", "list", "--message", HOSTILE),
        ("failed", "list", HOSTILE),
        ("failed", "list", "--dead"),
    ],
    "failed show": [("failed", "show", str(number)) for number in range(1, 9)] + [("failed", "show", HOSTILE)],
    "failed groups": [("failed", "groups"), *(("failed", "groups", "--by", by) for by in ("queue", "type", "evil"))],
    "failed count": [("failed", "count"), ("failed", "count", HOSTILE)],
    "failed export": [("failed", "export", "status:any")],
    "failed note": [("failed", "note", "1", HOSTILE, "--actor", HOSTILE), ("failed", "note", HOSTILE, "x")],
    "failed assign": [
        ("failed", "assign", "@group", HOSTILE, "--actor", HOSTILE, "--reason", HOSTILE),
        ("failed", "assign", HOSTILE, HOSTILE),
    ],
    "failed snooze": [("failed", "snooze", "@group", "4h"), ("failed", "snooze", HOSTILE, HOSTILE)],
    "failed wake": [("failed", "wake", "@group"), ("failed", "wake", HOSTILE)],
    "failed drop-note": [("failed", "drop-note", "1", "--actor", HOSTILE), ("failed", "drop-note", "99")],
    "failed aside": [("failed", "aside")],
    "failed reimport": [("failed", "reimport", "--failed-in", "orders")],
    "failed sweep": [("failed", "sweep", "--older-than", "0", "--yes"), ("failed", "sweep", "--older-than", HOSTILE)],
    "recover": [
        ("recover", "--all", "--dry-run"),
        ("recover", "--all", "--set-header", "a=b", "--preview"),
        ("recover", "--all", "--set-json", "/a=b", "--preview"),
        ("recover", "status:any", "--dry-run"),
        ("recover", "status:retry-issued", "--yes"),
        ("recover", "queue:orders", "--wait", "0", "--yes", "--actor", HOSTILE, "--reason", HOSTILE),
        ("recover", "--all", "--wait", "0", "--yes"),
        ("recover", HOSTILE_FILTER, "--yes"),
        ("recover", "--id", HOSTILE, "--yes"),
        ("recover", "--all", "--to", HOSTILE, "--yes"),
        ("recover", "--all", "--at", HOSTILE, "--yes"),
        ("recover", "--all", "--key", HOSTILE, "--yes"),
        ("recover", "--all"),
    ],
    "edit": [
        ("edit", "2", "--replace", "evil=good", "--wait", "0", "--yes"),
        ("edit", "2", "--set-json", "/a=b", "--yes"),
        ("edit", "5", "--replace", "evil=good", "--yes"),
        ("edit", "1", "--replace", "evil=good", "--dry-run"),
    ],
    **{
        kind: [
            (kind, "status:any", "--dry-run"),
            (kind, "--all", "--yes"),
            (kind, HOSTILE_FILTER, "--yes"),
            (kind, "--all"),
        ]
        for kind in ("archive", "restore", "resolve")
    },
    "operations list": [("operations", "list"), ("operations", "list", "--open")],
    "operations show": [
        *(("operations", "show", str(number), "--outcome", "any") for number in range(1, 6)),
        ("operations", "show", "1", "--outcome", HOSTILE),
    ],
    "operations watch": [("operations", "watch", "1", "--wait", "0"), ("operations", "watch", "3")],
    "operations pause": [("operations", "pause", "1"), ("operations", "pause", "4", "--reason", HOSTILE)],
    "operations resume": [("operations", "resume", "3", "--detach", "--reason", HOSTILE, "--actor", HOSTILE)],
    "operations cancel": [("operations", "cancel", "3", "--yes", "--reason", HOSTILE, "--actor", HOSTILE)],
    "operations set-rate": [("operations", "set-rate", "1", "5"), ("operations", "set-rate", "3", HOSTILE)],
    "operations services": [("operations", "services")],
    "operations lanes": [("operations", "lanes")],
    "operations acknowledge": [("operations", "acknowledge", "1", "--actor", HOSTILE)],
    "operations trail": [("operations", "trail", "--limit", "100"), ("operations", "trail", "--subject", HOSTILE)],
    "redirects list": [("redirects", "list")],
    "redirects add": [("redirects", "add", HOSTILE, "orders"), ("redirects", "add", "orders", HOSTILE)],
    "redirects remove": [("redirects", "remove", HOSTILE), ("redirects", "remove", "orders")],
    "routes": [("routes",), ("routes", "--application", HOSTILE)],
    "routes list": [("routes", "list"), ("routes", "list", "--application", HOSTILE)],
    "routes show": [("routes", "show", "evil"), ("routes", "show", HOSTILE)],
    "routes check": [("routes", "check", "evil-routes.toml", "--only"), ("routes", "check", "bad-routes.toml")],
    "routes add": [
        ("routes", "add", "evil-routes.toml"),
        ("routes", "add", "bad-routes.toml"),
        ("routes", "add", HOSTILE),
    ],
    "routes test": [
        ("routes", "test", "evil", HOSTILE),
        ("routes", "test", "evil", HOSTILE, "--id", HOSTILE),
        ("routes", "test", HOSTILE, "x", "--definition", "evil-routes.toml"),
    ],
    "routes tap": [("routes", "tap", HOSTILE), ("routes", "tap", "evil", "--for", "10ms")],
    "routes pause": [("routes", "pause", "other", "--reason", HOSTILE), ("routes", "pause", HOSTILE)],
    "routes resume": [("routes", "resume", "evil"), ("routes", "resume", HOSTILE)],
    "routes drain": [("routes", "drain", "evil"), ("routes", "drain", "other", "--within", HOSTILE)],
    "routes remove": [("routes", "remove", "other", "--yes"), ("routes", "remove", HOSTILE, "--yes")],
    "routes dead": [("routes", "dead", "evil"), ("routes", "dead", HOSTILE)],
    "routes replay": [("routes", "replay", "evil", "--yes"), ("routes", "replay", HOSTILE, "--yes")],
    "pipeline": [("pipeline",)],
    "pipeline list": [("pipeline", "list")],
    "pipeline show": [
        *(("pipeline", "show", f"@{state}", "--lineage") for state in ("done", "failed", "unknown", "waiting")),
        ("pipeline", "show", "evil"),
        ("pipeline", "show", HOSTILE),
    ],
    "pipeline check": [
        ("pipeline", "check", "evil-pipeline.toml"),
        ("pipeline", "check", "evil-pipeline.toml", "--mermaid"),
        ("pipeline", "check", "bad-pipeline.toml"),
        ("pipeline", "check", HOSTILE),
        ("pipeline", "check", f"json:{HOSTILE}"),
    ],
    "pipeline submit": [
        ("pipeline", "submit", "evil-pipeline.toml", "evil.toml", "--key", HOSTILE),
        ("pipeline", "submit", "evil-pipeline.toml", "evil.toml", "--key", f"1{HOSTILE}"),
        ("pipeline", "submit", "evil-pipeline.toml", HOSTILE),
    ],
    "pipeline tasks": [
        ("pipeline", "tasks", "evil"),
        ("pipeline", "tasks", HOSTILE),
        ("pipeline", "tasks", "evil", "-d", HOSTILE),
    ],
    "pipeline stuck": [
        ("pipeline", "stuck"),
        ("pipeline", "stuck", HOSTILE),
        ("pipeline", "stuck", "--older", HOSTILE),
    ],
    "pipeline slots": [
        ("pipeline", "slots", "evil", "slow"),
        ("pipeline", "slots", "evil", "lab"),
        ("pipeline", "slots", "evil", HOSTILE),
        ("pipeline", "slots", "evil", "slow", "--from", HOSTILE),
    ],
    "pipeline trace": [
        ("pipeline", "trace", "@failed"),
        ("pipeline", "trace", "@unknown"),
        ("pipeline", "trace", HOSTILE),
    ],
    "pipeline history": [("pipeline", "history"), ("pipeline", "history", HOSTILE)],
    "pipeline resend": [
        ("pipeline", "resend", "@failed", "--reason", HOSTILE, "--actor", HOSTILE),
        ("pipeline", "resend", "@unknown", HOSTILE),
        ("pipeline", "resend", HOSTILE),
        ("pipeline", "resend", "--pipeline", "evil", "--dry-run"),
        ("pipeline", "resend", "--pipeline", "evil", "--wait", "0", "--yes", "--reason", HOSTILE, "--actor", HOSTILE),
        ("pipeline", "resend", "--pipeline", "evil", "--state", "unknown", "--yes", "--actor", HOSTILE),
        ("pipeline", "resend", "--pipeline", HOSTILE, "--yes"),
        ("pipeline", "resend", "--pipeline", "evil", "--rate", HOSTILE),
    ],
    "pipeline revive": [
        ("pipeline", "revive", "@batch", HOSTILE),
        ("pipeline", "revive", "--pipeline", "evil", "--destination", HOSTILE),
        ("pipeline", "revive", "--pipeline", "evil", "--yes"),
    ],
    "pipeline resolve": [
        ("pipeline", "resolve", "@unknown", "--item", "1", "--as", "sent", "--reason", HOSTILE, "--actor", HOSTILE),
        ("pipeline", "resolve", HOSTILE, "--item", "1", "--as", "not-sent"),
    ],
    "pipeline send-now": [
        ("pipeline", "send-now", "evil", "slow", "--reason", HOSTILE, "--actor", HOSTILE),
        ("pipeline", "send-now", "evil", HOSTILE),
        ("pipeline", "send-now", HOSTILE, "lab"),
    ],
    "pipeline hold": [
        ("pipeline", "hold", "evil", "lab", "--reason", HOSTILE, "--actor", HOSTILE),
        ("pipeline", "hold", "evil", HOSTILE),
        ("pipeline", "hold", HOSTILE, "lab"),
    ],
    "pipeline release": [
        ("pipeline", "release", "evil", "slow", "--reason", HOSTILE),
        ("pipeline", "release", HOSTILE, HOSTILE),
    ],
    "pipeline cancel": [
        ("pipeline", "cancel", "@failed", "--reason", HOSTILE),
        ("pipeline", "cancel", HOSTILE, "@done"),
    ],
    "attention": [("attention",)],
    "history": [("history",), ("history", "failed")],
    "workers": [("workers",)],
    "trace": [("trace", HOSTILE)],
    "failed check": [("failed", "check")],
    "tokens": [("tokens",)],
    "tokens create": [("tokens", "create", HOSTILE, "--role", "viewer")],
    "tokens revoke": [("tokens", "revoke", HOSTILE)],
    "users": [("users",)],
    "users add": [("users", "add", HOSTILE, "--role", "viewer")],
    "users password": [("users", "password", HOSTILE)],
    "users rights": [("users", "rights", HOSTILE, "--role", "viewer"), ("users", "rights", "ann", "--role", HOSTILE)],
    "users remove": [("users", "remove", HOSTILE, "--yes")],
    "webhooks": [("webhooks",)],
    "webhooks add": [("webhooks", "add", HOSTILE, "http://127.0.0.1:9/"), ("webhooks", "add", "x", HOSTILE)],
    "webhooks test": [("webhooks", "test", HOSTILE)],
    "webhooks remove": [("webhooks", "remove", HOSTILE)],
    "redactions": [("redactions",)],
    "redactions add": [("redactions", "add", "header", HOSTILE), ("redactions", "add", HOSTILE, "x")],
    "redactions remove": [("redactions", "remove", "99")],
    "policies check": [("policies", "check", "evil.toml")],
    "policies preview": [("policies", "preview", "evil.toml"), ("policies", "preview", "evil.toml", HOSTILE)],
}
ELSEWHERE = {
    "demo": "has its own texts only",
    "worker": "runs until it is stopped; what it tells are events, see test_telemetry.py",
    "operations run": "the same",
    "routes run": "the same",
    "pipeline run": "the same",
    "serve": "the same",
}


def leaves(command, path=()):
    """Return the names of all commands that do something."""
    below = getattr(command, "commands", {})
    if not below or command.invoke_without_command:
        yield " ".join(path)
    for name, each in below.items():
        yield from leaves(each, (*path, name))


def test_every_command_is_run_on_hostile_texts():
    assert set(leaves(typer.main.get_command(app))) == {*COMMANDS, *ELSEWHERE}


def check(text):
    """Nothing moves the cursor, and no line is one that a message wrote."""
    raw = sorted({each for each in text if not each.isprintable() and each != "\n"})
    assert raw == [], text
    assert [line for line in text.splitlines() if line.startswith("FORGED")] == []


def meant(arguments):
    """Return the words of a command, with the ids of tasks for their states."""
    return [TASKS[word[1:]] if word[:1] == "@" else word for word in arguments]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_no_raw_text(run, name):
    for arguments in COMMANDS[name]:
        ran = run(*meant(arguments))
        assert not ran.exception or isinstance(ran.exception, SystemExit), (arguments, ran.exception)
        check(ran.stdout)
        check(ran.stderr)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "failed export"])
def test_a_command_prints_exact_json(run, name):
    ran = run(*meant(COMMANDS[name][0]), "--json")
    assert not ran.exception or isinstance(ran.exception, SystemExit), ran.exception
    assert all(each.isprintable() or each == "\n" for each in ran.output)
    if ran.exit_code == 0:
        json.loads(ran.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        *(("peek", "orders"), ("dead", "list", "orders"), ("dead", "show", "orders", "1"), ("failed", "list")),
        *(("failed", "show", "5"), ("failed", "aside"), ("operations", "list"), ("operations", "show", "1")),
        *(("operations", "trail"), ("failed", "groups", "--by", "evil")),
        *(("routes", "show", "evil"), ("routes", "test", "evil", HOSTILE), ("routes", "dead", "evil")),
        *(
            ("pipeline", "show", "@failed"),
            ("pipeline", "stuck"),
            ("pipeline", "history"),
            ("pipeline", "trace", "@done"),
        ),
    ],
    ids=" ".join,
)
def test_json_has_every_text_as_it_is(read, arguments):
    texts = []

    def look(value):
        texts.append(value) if isinstance(value, str) else None
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            look(each)

    look(read(*meant(arguments)))
    assert any(HOSTILE in text for text in texts)


def test_an_export_has_every_text_as_it_is(ok, tmp_path):
    to_terminal = [json.loads(line) for line in ok("failed", "export", "status:any").splitlines()]
    ok("failed", "export", "status:any", "-o", "all.jsonl")
    to_file = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert to_terminal == to_file
    assert to_file[0]["message"]["headers"][HOSTILE] == HOSTILE
    check((tmp_path / "all.jsonl").read_text())


@pytest.mark.parametrize("command", [("recover", "--all"), ("archive", "--all"), ("edit", "3", "--set-header", "a=b")])
def test_a_question_prints_no_raw_text(run, monkeypatch, command):
    monkeypatch.setattr("redrive.cli.output.prompt.is_interactive", lambda: True)
    ran = run(*command, stdin="n\n")
    assert ran.exit_code == 1
    check(ran.stdout)
    check(ran.stderr)
