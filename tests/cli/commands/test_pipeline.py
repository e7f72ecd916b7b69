# SPDX-License-Identifier: MIT
"""``redrive pipeline``, run as a person runs it; ``run`` as a real process, and the work of others in this one."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from itertools import count

import httpx
import pytest

from redrive import connect, open_pipeline, open_pipelines, open_recovery
from redrive.cli.commands.pipeline import task_by_task
from redrive.pipeline import OutcomeUnknown, Output, PipelineRunner, ShipmentRefused, TaskState, parse_pipeline
from tests.patience import PATIENCE_S

URL = "sqlite:///redrive.db"
HERE = "tests.cli.commands.test_pipeline"
FILE = f"""
[pipeline]
name = "reports"
path = "/reports"
receive = "{HERE}:receive"
process = "{HERE}:route"
tries = 1

[destinations.archive]
transport = {{ kind = "call", function = "{HERE}:archive" }}
guarantee = "at_most_once"
retry = []

[destinations.lab]
transport = {{ kind = "file", folder = "outbox" }}
timing = {{ every = "366d" }}
limits = {{ max_items = 4 }}
merge = "{HERE}:merge"

[destinations.daily]
transport = {{ kind = "queue", queue = "daily" }}
timing = {{ per_day = 2, start = "02:30", zone = "Europe/Berlin" }}
"""

sent = []
outcomes = {}


def receive(submission):
    return submission.body.split()


def route(report):
    if report.items[0].body == b"boom":
        raise ValueError("it goes boom")
    for name in ("archive", "lab"):
        if items := [item for item in report.items if (name == "lab") == item.body.startswith(b"lab")]:
            yield Output(name, items)


def merge(items):
    if any(b"glue" in item.body for item in items):
        raise ValueError("glue in the works")
    return b"\n".join(item.body for item in items)


def archive(shipment):
    if shipment.body in outcomes:
        return outcomes[shipment.body]
    sent.append(shipment.body.decode())
    return f"kept {shipment.delivery_id[-2:]}"


@pytest.fixture(autouse=True)
def _world(tmp_path):
    sent.clear()
    outcomes.clear()
    (tmp_path / "reports.toml").write_text(FILE)


async def worked():
    """Let the pipeline do all that is to be done now."""
    async with connect(URL) as broker, open_pipeline(broker, parse_pipeline(FILE)) as pipeline:
        runner = PipelineRunner(pipeline, listen="127.0.0.1:0")
        running = asyncio.create_task(runner.run())
        await runner.decider.decide()
        while await busy(pipeline):
            assert not running.done(), running
            await runner.decider.decide()
        runner.stop()
        await running


async def busy(pipeline):
    ready = await pipeline.tasks("reports", states=[TaskState.READY], limit=1)
    infos = await pipeline.destinations("reports")
    full = any(each.waiting_items >= 4 and not each.is_held for each in infos)
    queues = [each for each in await pipeline.broker.queues() if each.name.startswith("pipelines/")]
    return (
        ready or full or any(each.has_open_slot for each in infos) or any(each.ready + each.locked for each in queues)
    )


async def confirmed():
    """Let recovery read what has become of what it has sent."""
    async with connect(URL) as broker, open_recovery(broker, sources=()) as recovery:
        await recovery.step()


@pytest.fixture
def submit(ok):
    """Submit something, let the pipeline work, and return the id of its task."""
    ok("queues", "declare", "daily")
    numbers = count()

    def submitter(body, **answers):
        outcomes.update({name.encode(): outcome for name, outcome in answers.items()})
        said = ok("pipeline", "submit", "reports.toml", "-", "--key", str(next(numbers)), stdin=body)
        asyncio.run(worked())
        return re.search("task (.*?),", said)[1]

    return submitter


@pytest.fixture
def task_in(read):
    """Return the newest task in a state, as JSON has it."""
    return lambda state: read("pipeline", "tasks", "reports", "--state", state)[0]


# --- plans


def test_a_plan_is_checked_and_printed_without_a_database(ok, read, tmp_path):
    said = ok("pipeline", "check", "reports.toml")
    assert said.splitlines()[0] == "reports.toml: 3 destinations: valid"
    assert "process     by tests.cli.commands.test_pipeline:route, 1 try\n" in said
    assert ", or at 4 items, merged by" in said
    assert "2 times a day from 02:30 Europe/Berlin" in said
    assert ok("pipeline", "check", "reports.toml", "--mermaid").startswith("flowchart LR\n    receive[")
    found = read("pipeline", "check", "reports.toml")
    assert [each["name"] for each in found["destinations"]] == ["archive", "daily", "lab"]
    assert not (tmp_path / "redrive.db").exists()


def test_a_plan_of_a_module_is_found(ok, refused, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shop_pipes.py").write_text(
        "from redrive.pipeline import Pipeline\nfrom redrive.pipeline.transports.file import FileTransport\n"
        "pipe = Pipeline('shop')\npipe.process(print)\npipe.destination('lab', FileTransport('x'))\n"
    )
    assert "pipeline shop" in ok("pipeline", "check", "shop_pipes:pipe")
    assert "no Pipeline called 'other'; it has: pipe" in refused("pipeline", "check", "shop_pipes:other")
    assert "there is no module 'nowhere'" in refused("pipeline", "check", "nowhere:pipe")
    assert "names no pipeline; write a file such as" in refused("pipeline", "check", "a b:pipe")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (FILE.replace("per_day = 2", "per_day = 0"), "reports.toml, line 22: "),
        (FILE.replace("Europe/Berlin", "Europe/Belrin"), "such as 'Europe/Berlin'"),
        (FILE.replace(":route", ":rout"), "reports.toml, line 6: process="),
        (FILE + "[[", "this is not TOML"),
    ],
    ids=count(),
)
def test_a_plan_that_cannot_be_used_is_refused_with_its_line(refused, tmp_path, text, problem):
    (tmp_path / "reports.toml").write_text(text)
    for command in ("check", "run"):
        assert problem in refused("pipeline", command, "reports.toml", status=2)
    assert not (tmp_path / "redrive.db").exists()


def test_the_same_key_is_submitted_once(ok, read, refused, run, tmp_path):
    ok("queues", "declare", "daily")
    (tmp_path / "report").write_text("a b")
    first = read("pipeline", "submit", "reports.toml", "report", "--key", "k")
    assert (first["items"], first["is_new"]) == (2, True)
    again = ok("pipeline", "submit", "reports.toml", "report", "--key", "k")
    assert again == f"the same was submitted before, as task {first['task']}\n"
    assert (
        "was used for another body"
        in run("pipeline", "submit", "reports.toml", "-", "--key", "k", stdin="other").stderr
    )
    assert "nowhere cannot be read" in refused("pipeline", "submit", "reports.toml", "nowhere")


def test_submitting_with_another_plan_does_not_change_what_runs(ok, read, submit, tmp_path):
    submit("a")
    (tmp_path / "reports.toml").write_text(FILE.partition("[destinations.daily]")[0])
    ok("pipeline", "submit", "reports.toml", "-", "--key", "k", stdin="b")
    assert [(each["version"], len(each["destinations"])) for each in read("pipeline")] == [(1, 3)]


# --- looking


def test_no_pipelines_yet_says_how_to_run_one(ok):
    ok("queues", "declare", "orders")
    assert ok("pipeline") == "no pipelines yet; run one: redrive pipeline run FILE\n"


def test_pipelines_are_listed_with_what_needs_a_person(ok, read, submit):
    submit("a bad lost lab-1", bad=ShipmentRefused("no"))
    submit("boom")
    heading, line = ok("pipeline", "list").splitlines()
    assert heading.split()[-5:] == ["waiting", "ready", "failed", "unknown", "expired"]
    assert line.split()[-5:] == ["1", "-", "2", "-", "-"]
    (found,) = read("pipeline", "list")
    assert read("pipeline") == [found]
    assert {"stage": "batch", "destination": "lab", "state": "waiting", "count": 1} in found["tasks"]


def test_a_pipeline_is_shown_with_its_destinations_and_what_is_wrong(ok, read, submit):
    submit("bad lab-1", bad=ShipmentRefused("no"))
    ok("pipeline", "hold", "reports", "lab", "--reason", "the lab moves")
    said = ok("pipeline", "show", "reports")
    assert said.startswith("pipeline reports, version 1\n  receive ")
    assert re.search(r"archive +open +at once +- +- +- +1 ", said)
    assert re.search(r"lab +held +\d{4}-\d\d-\d\d 00:00:00 UTC", said)
    assert said.endswith("lab is held: the lab moves\n")
    found = {each["name"]: each for each in read("pipeline", "show", "reports")["destinations"]}
    assert (found["lab"]["is_held"], found["lab"]["waiting"], found["archive"]["next_slot"]) == (True, 1, None)
    assert found["daily"]["timing"] == "2 times a day from 02:30 Europe/Berlin"


def test_a_task_is_shown_with_its_shipments_history_and_lineage(run, read, submit, task_in):
    submit("good bad", bad=ShipmentRefused("no room"))
    task = task_in("failed")["id"]
    ran = run("pipeline", "show", task, "--lineage")
    assert ran.stdout.startswith(f"task {task} is failed: no room\n")
    assert re.search(r"1 +sent +1 +1 +\w+-1 +kept -1", ran.stdout)
    assert re.search(r"2 +refused +1 +1 +\w+-2 +no room", ran.stdout)
    assert "send_error: no room" in ran.stdout
    assert f"└─ {task}  send to archive, 2 items: failed: no room" in ran.stdout
    assert f"do it again: redrive pipeline resend {task}" in ran.stderr
    found = read("pipeline", "show", task, "--lineage")
    assert [each["state"] for each in found["shipments"]] == ["sent", "refused"]
    assert len(found["lineage"]) == 4


def test_an_item_is_traced_from_its_submission_to_where_it_has_gone(ok, read, submit, refused):
    first, second = submit("good lab-1 lab-2"), submit("lab-3 lab-4")
    lines = ok("pipeline", "trace", f"{first}.2").splitlines()
    assert lines[0] == f"{first}  process, item {first}.2: done"
    assert re.fullmatch(r"└─ \w+  batch to lab, item \S+: done", lines[1])
    assert re.fullmatch(r"   └─ \w+  send to lab, item \S+: done", lines[2])
    assert re.match(r"         shipment 1: sent, outbox/reports-lab-", lines[3])
    send = lines[2].split()[1]
    both = ok("pipeline", "trace", send)  # everything that came together in it
    assert {first, second} <= set(re.findall(r"\w{28}", both))
    assert f"{send} (above)" in both
    assert len(ok("pipeline", "trace", first).splitlines()) == 6
    found = read("pipeline", "trace", first)
    assert len(found["tasks"]) == 4
    assert {each["state"] for each in found["shipments"]} == {"sent"}
    assert "there is no item or task 'x'" in refused("pipeline", "trace", "x", status=3)


def test_tasks_are_listed_by_destination_and_state_page_by_page(ok, read, run, submit):
    submit("bad good", bad=ShipmentRefused("no"))
    submit("lab-1 good")
    assert {each["destination"] for each in read("pipeline", "tasks", "reports", "-d", "archive")} == {"archive"}
    assert len(read("pipeline", "tasks", "reports", "--state", "failed,waiting", "--state", "done")) == 5
    first = run("pipeline", "tasks", "reports", "--limit", "2")
    last = first.stdout.splitlines()[-1].split()[0]
    assert f"there may be more: --before {last}" in first.stderr
    rest = read("pipeline", "tasks", "reports", "--before", last)
    assert (len(rest), all(each["id"] < last for each in rest)) == (3, True)
    assert ok("pipeline", "tasks", "reports", "--state", "expired") == "pipeline reports has no such tasks\n"


def test_what_is_stuck_is_listed(ok, read, run, submit):
    submit("good")
    assert ok("pipeline", "stuck") == "nothing is stuck: nothing is overdue by 15 m, and nothing failed\n"
    task = submit("boom")
    ran = run("pipeline", "stuck", "reports", "--older", "1h")
    assert re.search(rf"{task} +reports +process +- +failed +\d+ s ago +ValueError:", ran.stdout)
    assert "redrive pipeline show TASK" in ran.stderr
    ok("pipeline", "submit", "reports.toml", "-", "--key", "late", stdin="x")
    assert [each["state"] for each in read("pipeline", "stuck", "--older", "0")] == ["failed", "ready"]


def test_slots_that_have_come_and_that_are_to_come(ok, read, submit):
    submit("lab-1 lab-2 lab-3 lab-4")
    assert re.search(r" UTC +\w{3} .* served +size +1", ok("pipeline", "slots", "reports", "lab"))
    said = ok("pipeline", "slots", "reports", "daily", "--from", "2027-03-27", "--days", "2")
    assert re.findall(r"(?:Sat|Sun) \S+ \S+ \S+", said) == [
        "Sat 2027-03-27 02:30:00 +01:00",
        "Sat 2027-03-27 14:30:00 +01:00",
        "Sun 2027-03-28 03:00:00 +02:00",  # clocks skip half past two
        "Sun 2027-03-28 14:30:00 +02:00",
    ]
    found = read("pipeline", "slots", "reports", "daily", "--from", "2027-03-28T12:00+00:00", "--days", "1")
    assert found["next"] == ["2027-03-28T12:30:00+00:00", "2027-03-29T00:30:00+00:00"]
    assert len(read("pipeline", "slots", "reports", "daily")["next"]) == 10
    assert "everything is sent to it at once" in ok("pipeline", "slots", "reports", "archive")


def test_the_history_has_who_and_why(ok, read, submit):
    submit("good")
    ok("pipeline", "hold", "reports", "archive", "--reason", "full", "--actor", "ana")
    first, *rest = ok("pipeline", "history").splitlines()
    assert first.endswith("  hold  reports archive  by ana: full")
    assert [line.split()[3] for line in rest] == ["send", "process", "receive"]
    assert len(read("pipeline", "history", "reports", "--limit", "2")) == 2


# --- changing


def test_a_destination_is_held_and_released(ok, read, submit):
    submit("good lab-1")
    assert ok("pipeline", "hold", "reports", "lab") == "lab is held: what is made for it waits\n"
    assert re.search(r"lab\s+.*\(held\)", ok("pipeline"), re.DOTALL)
    assert ok("pipeline", "release", "reports", "lab") == "lab is released; 1 task waits for a slot\n"
    assert read("pipeline", "hold", "reports", "archive", "--reason", "x")["reason"] == "x"


def test_one_task_is_sent_again_and_only_what_failed(ok, read, run, submit, task_in):
    submit("good bad", bad=ShipmentRefused("no"))
    task = task_in("failed")["id"]
    outcomes.clear()
    assert ok("pipeline", "resend", task, "--reason", "room") == f"task {task} is ready to be done again\n"
    asyncio.run(worked())
    assert sent == ["good", "bad"]
    refusal = run("pipeline", "resend", task)
    assert (refusal.exit_code, "--items all --again" in refusal.stderr) == (6, True)
    ok("pipeline", "resend", task, "--items", "all", "--again")
    asyncio.run(worked())
    assert sent == ["good", "bad", "good", "bad"]
    found = read("pipeline", "show", task)
    assert [each["delivery_id"] for each in found["shipments"]] == [f"{task}-1-2", f"{task}-2-2"]


def test_an_unknown_outcome_is_resolved(ok, run, submit, task_in):
    submit("lost gone", lost=OutcomeUnknown("no answer"), gone=OutcomeUnknown("no answer"))
    task = task_in("unknown")["id"]
    assert f"redrive pipeline resolve {task} --item 1 --as sent" in run("pipeline", "show", task).stderr
    said = ok("pipeline", "resolve", task, "--item", "1", "--as", "sent", "--reason", "they have it")
    assert said == f"task {task}: 1 shipment has arrived; the task is unknown\n"
    outcomes.clear()
    assert ok("pipeline", "resolve", task, "--item", "2", "--as", "not-sent").endswith("the task is ready\n")
    asyncio.run(worked())
    assert sent == ["gone"]
    assert task_in("done")["id"] == task


def test_all_unknown_outcomes_are_sent_again_task_by_task(ok, refused, submit):
    submit("lost", lost=OutcomeUnknown("no answer"))
    submit("lost")
    bulk = ("pipeline", "resend", "--pipeline", "reports", "--state", "unknown")
    assert ok(*bulk, "--dry-run") == "2 tasks of pipeline reports are unknown\n"
    assert "add --yes" in refused(*bulk)
    assert "a destination has a rate of its own" in refused(*bulk, "--rate", "5/s", status=2)
    assert ok(*bulk, "--yes") == "2 tasks ready to be done again\n"
    outcomes.clear()
    asyncio.run(worked())
    assert sent == ["lost", "lost"]
    assert "no task of pipeline reports is unknown" in refused(*bulk, "--yes", status=4)


def test_all_failed_tasks_of_a_pipeline_are_one_operation(ok, read, run, submit):
    submit("good bad", bad=ShipmentRefused("no"))
    submit("bad")
    bulk = ("pipeline", "resend", "--pipeline", "reports")
    assert ok(*bulk, "--dry-run").splitlines() == [
        "2 failed tasks of pipeline reports would be sent again",
        "  2 to pipelines/reports/send/archive",
    ]
    assert read(*bulk, "--destination", "lab", "--dry-run")["tasks"] == 0
    outcomes.clear()
    ran = run(*bulk, "--destination", "archive", "--rate", "600/m", "--reason", "room", "--wait", "0", "--yes")
    assert (ran.exit_code, "operation 1 (recover) is" in ran.stdout) == (0, True)
    assert "redrive operations pause 1   redrive operations cancel 1" in ran.stderr
    asyncio.run(worked())
    assert sorted(sent) == ["bad", "bad", "good"]
    assert {each["state"] for each in read("pipeline", "tasks", "reports")} == {"done"}
    asyncio.run(confirmed())
    found = read("operations", "show", "1")
    assert (found["progress"]["succeeded"], found["plan"]["rate"], found["reason"]) == (2, 10.0, "room")
    ran = run(*bulk, "--yes")
    assert (ran.exit_code, "no task of pipeline reports has failed" in ran.stderr) == (4, True)


def test_a_report_that_could_not_be_processed_is_processed_again(read, run, submit):
    task = submit("boom")
    first = run("pipeline", "resend", "--pipeline", "reports", "--wait", "0", "--yes", "--json")
    assert json.loads(first.stdout)["progress"]["forwarded"] == 1
    again = run("pipeline", "resend", "--pipeline", "reports", "--yes")
    assert (again.exit_code, "operation 1 has sent the messages of these tasks already" in again.stderr) == (4, True)
    asyncio.run(worked())  # it fails again
    assert read("pipeline", "show", task)["state"] == "failed"
    assert [each["name"] for each in read("pipeline", "show", task)["history"]].count("process_error") == 2


def test_what_broke_a_merge_is_revived_and_not_sent(ok, run, submit, task_in):
    submit("lab-1 lab-2 lab-glue")
    submit("lab-3")
    task = task_in("failed")["id"]
    ran = run("pipeline", "resend", "--pipeline", "reports", "--yes")
    assert ran.exit_code == 4
    assert "1 task broke a merge, and is not sent; to batch again: redrive pipeline revive --pipeline" in ran.stderr
    bulk = ("pipeline", "revive", "--pipeline", "reports", "--destination", "lab")
    assert ok(*bulk, "--dry-run") == "1 task of pipeline reports for lab is expired or failed\n"
    assert ok(*bulk, "--yes") == f"task {task} is waiting for a slot\n"
    assert ok("pipeline", "cancel", task, "--reason", "glue") == f"task {task} is cancelled\n"
    assert ok("pipeline", "revive", task) == f"task {task} is waiting for a slot\n"


def test_several_tasks_are_changed_and_each_failure_is_listed(run, submit):
    first, second = submit("lab-1"), submit("lab-2")
    waiting = [each["id"] for each in json.loads(run("pipeline", "tasks", "reports", "--json").stdout)]
    batch = [each for each in waiting if each not in (first, second)]
    ran = run("pipeline", "cancel", *batch, first, "nowhere")
    assert (ran.exit_code, ran.stdout) == (8, "2 tasks cancelled; 2 not\n")
    assert f"task {first}: it is done: there is nothing left to cancel" in ran.stderr
    assert "there is no task 'nowhere'" in ran.stderr
    found = json.loads(run("pipeline", "cancel", batch[0], "--json").stdout)
    assert (found["changed"], found["failed"][0]["error"], found["not_tried"]) == ([], "task-conflict", 0)


def test_ctrl_c_ends_bulk_work_after_a_task_and_it_is_counted(run, submit, monkeypatch):
    for number in range(3):
        submit(f"lost{number}", **{f"lost{number}": OutcomeUnknown("no answer")})
    bar = type("Bar", (), {"add_task": lambda *_, **__: 1, "advance": lambda *_: signal.raise_signal(signal.SIGINT)})

    class Interrupting:
        """A progress bar at which a person presses Ctrl-C."""

        def __enter__(self):
            return bar()

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(task_by_task, "progress_bar", Interrupting)
    ran = run("pipeline", "resend", "--pipeline", "reports", "--state", "unknown", "--yes")
    assert (ran.exit_code, ran.stdout) == (130, "1 task ready to be done again; stopped, 2 not tried\n")


@pytest.mark.parametrize(
    ("command", "problem", "status"),
    [
        (("show", "report"), "there is no pipeline or task 'report'; did you mean 'reports'?", 3),
        (("tasks", "report"), "there is no pipeline 'report'; did you mean 'reports'?", 3),
        (("stuck", "nothing-like-it"), "there is no pipeline 'nothing-like-it'; redrive pipeline list", 3),
        (("history", "x"), "there is no pipeline 'x'", 3),
        (("tasks", "reports", "--state", "lost"), "--state 'lost': there are ready, waiting, done", 2),
        (("tasks", "reports", "-d", "lba"), "has no destination 'lba'; it has: archive, daily, lab", 3),
        (("slots", "reports", "lab", "--from", "soon"), "--from 'soon': write a date such as 2026-10-31", 2),
        (("hold", "reports", "lba"), "it has: archive, daily, lab", 3),
        (("release", "report", "lab"), "did you mean 'reports'?", 3),
        (("resend",), "say which: TASK..., or --pipeline PIPELINE", 2),
        (("resend", "x", "--pipeline", "reports"), "say which: TASK..., or --pipeline PIPELINE", 2),
        (("resend", "x", "--dry-run"), "--dry-run is for --pipeline", 2),
        (("resend", "-p", "reports", "--rate", "fast"), "--rate 'fast': write 40/s, 600/m or 100/h", 2),
        (("resend", "nowhere"), "there is no task 'nowhere'", 3),
        (("revive", "nowhere"), "there is no task 'nowhere'", 3),
        (("revive", "x", "--dry-run"), "--dry-run is for --pipeline", 2),
        (("resolve", "nowhere", "--item", "1", "--as", "sent"), "there is no task 'nowhere'", 3),
    ],
    ids=count(),
)
def test_mistakes_are_named_with_what_helps(ok, refused, command, problem, status):
    ok("queues", "declare", "daily")
    ok("pipeline", "submit", "reports.toml", "-", "--key", "k", stdin="good")
    assert problem in refused("pipeline", *command, status=status)


# --- processes


@pytest.fixture
def start(tmp_path):
    """Start ``redrive pipeline run`` as a person would; it is gone after the test."""
    (tmp_path / "shop_reports.py").write_text(
        "from redrive.pipeline import Output\n\n\ndef route(report):\n    yield Output('lab', report.items)\n"
    )
    (tmp_path / "shop.toml").write_text(
        '[pipeline]\nname = "shop"\npath = "/reports"\nprocess = "shop_reports:route"\n'
        '[destinations.lab]\ntransport = { kind = "file", folder = "outbox" }\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "redrive.cli", "pipeline", "run", "shop.toml", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=dict(os.environ),
    )
    yield process
    for _ in range(2):  # the second one ends it at once
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_pipeline_runs_until_a_signal_and_says_what_it_has_done(start, tmp_path, how):
    assert start.stderr.readline() == "runs pipeline shop, version 1, to lab; Ctrl-C stops it\n"
    lines = iter(start.stderr.readline, "")
    address = next(line for line in lines if "submissions are received at" in line).split()[-1]
    answer = httpx.post(address, content=b"hello", headers={"Idempotency-Key": "1"})
    assert answer.status_code == 201
    while not [each for each in tmp_path.glob("outbox/*") if not each.name.startswith(".")]:
        assert start.poll() is None
    asyncio.run(ended("shop"))
    start.send_signal(how)
    out, err = start.communicate(timeout=PATIENCE_S)
    assert (start.returncode, out) == (0, "")
    assert err.splitlines()[-1] == "done: 1 report, 0 slots, 1 send task; 0 failed"
    (written,) = tmp_path.glob("outbox/shop-lab-*")
    assert written.read_bytes() == b"hello"


async def ended(pipeline):
    """Wait until no task of a pipeline is to be done."""
    async with connect(URL) as broker, open_pipelines(broker) as pipelines:
        while await pipelines.tasks(pipeline, states=[TaskState.READY], limit=1):
            pass
