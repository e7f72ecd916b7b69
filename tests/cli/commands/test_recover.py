# SPDX-License-Identifier: MIT
"""``redrive recover``, ``edit``, ``archive``, ``restore`` and ``resolve``, run as a person runs them."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from redrive import connect_blocking
from redrive.broker import Message
from redrive.clock import system_clock, utc
from redrive.worker.confirmation import confirmation_of
from tests.patience import PATIENCE_S

URL = "sqlite:///redrive.db"


@pytest.fixture
def fail(ok):
    """Put messages into the error queue as a worker does."""
    ok("queues", "declare", "orders")
    ok("queues", "declare", "error")

    def failing(*bodies, queue="orders", kind="ValueError"):
        headers = (f"redrive-failed-queue={queue}", f"redrive-failed-exception-type={kind}", "customer=7")
        options = [part for each in headers for part in ("--header", each)]
        ok("send", "error", "-", "--lines", *options, stdin="\n".join(bodies))

    return failing


@pytest.fixture
def failures(fail):
    """Three failed orders."""
    fail('{"id": 1}', '{"id": 2}', '{"id": 3}')


def handle(count, *, failing=0):
    """Handle messages as a worker does: what goes well is confirmed, what does not is in the error queue."""
    with connect_blocking(URL) as broker:
        for number, each in enumerate(broker.receive("orders", max_messages=count)):
            told = {name: value for name, value in each.headers.items() if name.startswith("redrive-recovery")}
            if number < failing:
                headers = {**told, "redrive-failed-queue": "orders"}
                broker.send("error", Message(each.body, id=each.id, headers=headers))
            else:
                broker.apply(*confirmation_of(each.message, each.queue, utc(system_clock.time())))
            each.complete()


@pytest.mark.usefixtures("failures")
def test_recover_sends_what_matches_and_tells_the_figures(ok, read):
    told = ok("recover", "queue:orders", "--reason", "mended", "--wait", 0, "--yes")
    assert told.splitlines()[0] == "operation 1 (recover) is completed"
    assert "3 of 3" in told
    assert "▓ sent 3" in told
    assert "redrive operations show 1" in told
    assert [each["body"] for each in read("peek", "orders")] == ['{"id": 1}', '{"id": 2}', '{"id": 3}']
    assert [each["status"] for each in read("failed", "list", "status:any")] == ["retry-issued"] * 3


@pytest.mark.usefixtures("failures")
def test_recover_in_json_is_the_operation(read):
    told = read("recover", "--all", "--wait", 0, "--yes", "--actor", "ana", "--rate", 1000)
    assert (told["number"], told["kind"], told["state"], told["actor"]) == (1, "recover", "completed", "ana")
    assert told["progress"]["forwarded"] == told["progress"]["waiting"] == told["progress"]["total"] == 3
    assert told["plan"]["rate"] == 1000
    shown = read("operations", "show", 1)
    assert {name: shown[name] for name in told} == told


@pytest.mark.usefixtures("failures")
def test_dry_run_counts_and_does_nothing(ok, read, fail):
    fail("x", queue="billing")
    ok("ingest")
    said = ok("recover", "--all", "--dry-run")
    assert re.sub(r"last \d+ s ago", "last 0 s ago", said).splitlines() == [
        "4 match, 4 are available",
        "  1 would be sent to billing",
        "    still failing there: ValueError, last 0 s ago (1 of these)",
        "  3 would be sent to orders",
        "    still failing there: ValueError, last 0 s ago (3 of these)",
    ]
    found = read("recover", "queue:orders", "--limit", 2, "--dry-run")
    assert (found["matched"], found["free"], found["unknown_ids"]) == (2, 2, [])
    assert read("operations", "list") == []


@pytest.mark.parametrize(
    "command",
    [
        ("recover", "--all", "--dry-run"),
        ("recover", "--all", "--set-header", "a=b", "--preview"),
        ("archive", "--all", "--dry-run"),
        ("restore", "status:any", "--dry-run"),
        ("resolve", "--all", "--dry-run"),
    ],
)
@pytest.mark.usefixtures("failures")
def test_a_dry_run_leaves_the_error_queue_as_it_is_and_says_so(run, read, command):
    before = read("peek", "error")
    ran = run(*command)
    assert ran.stdout.splitlines()[0] == "0 match, 0 are available"
    assert ran.stderr == "3 failures are not read from error yet: redrive ingest reads them\n"
    assert read(*command)["unread"] == {"error": 3}
    assert read("peek", "error") == before


@pytest.mark.usefixtures("failures")
def test_an_edit_that_is_only_tried_leaves_the_error_queue_as_it_is(run, read):
    read("failed", "list")
    with connect_blocking(URL) as broker:
        broker.send("error", Message(b"new", headers={"redrive-failed-queue": "orders"}))
    assert '-  "id": 1' in run("edit", 1, "--set-json", "/id:=100", "--dry-run").stdout
    assert len(read("peek", "error")) == 1
    (preview,) = read("edit", 1, "--set-json", "/id:=100", "--dry-run")["previews"]
    assert '+  "id": 100' in preview["changes"]


@pytest.mark.usefixtures("failures")
def test_an_age_is_an_instant_wherever_it_is_shown(run, ok, read, monkeypatch):
    """What is asked about, what is done and what is shown later are the same messages."""
    ok("ingest")
    dry = read("archive", "age<1h", "--dry-run")
    assert dry["matched"] == 3
    assert re.fullmatch(r"failed>=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*Z", dry["filter"])
    assert re.search(
        r"\n  failed at 2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d UTC or later\n", ok("archive", "age<1h", "--dry-run")
    )
    monkeypatch.setattr("redrive.cli.output.prompt.is_interactive", lambda: True)
    asked = run("recover", "age<1h", "--wait", 0, stdin="y\n")
    assert re.search(r"Recover 3 failed messages that failed at (.* UTC) or later \(3 to orders\)\?", asked.stderr)
    when = re.search(r"failed at (.* UTC) or later", asked.stderr)[1]
    assert f"failed    at {when} or later" in ok("operations", "show", 1)
    assert read("operations", "show", 1)["filter"].startswith(f"failed>={when[:10]}T{when[11:19]}")


@pytest.mark.usefixtures("failures")
def test_an_age_where_a_date_belongs_is_refused_with_the_way_to_write_it(run, read):
    for command in ("recover", "archive"):
        ran = run(command, "failed>30d", "--yes")
        assert ran.exit_code == 2
        assert "write age<30d for younger ones, age>30d for older ones" in ran.stderr
    assert read("operations", "list") == []


@pytest.mark.parametrize("empty", ["", "  "])
@pytest.mark.usefixtures("failures")
def test_a_variable_that_is_empty_does_not_mean_everything(run, read, empty):
    for command in ("recover", "archive", "resolve"):
        ran = run(command, empty, "--yes")
        assert (ran.exit_code, "--all of them" in ran.stderr) == (2, True)
    assert read("operations", "list") == []


@pytest.mark.usefixtures("failures")
def test_what_was_sent_and_not_heard_of_is_named_with_the_way_out(run, ok, read):
    ok("recover", "--id", 1, "--id", 2, "--wait", 0, "--yes", "--actor", "ana")
    ok("recover", "--id", 3, "--wait", 0, "--yes", "--actor", "ana")
    sent = (
        "operation 1 (completed, requested by ana) and operation 2 (completed, requested by ana) sent these 3, "
        "and nothing was heard of them yet; --again sends them once more"
    )
    for command in (("recover", "queue:orders"), ("recover", "--all")):
        ran = run(*command, "--yes")
        assert (ran.exit_code, ran.stderr) == (
            4,
            f"error: nothing is left to send: {sent}\n  redrive operations show 1\n",
        )
    ran = run("recover", "status:any", "--yes")
    assert (ran.exit_code, ran.stderr) == (6, f"error: {sent}\n  redrive operations show 1\n")
    assert f"3 are skipped: {sent}" in ok("recover", "status:any", "--dry-run")
    assert [each["operation"] for each in read("recover", "status:any", "--dry-run")["holders"]] == [1, 2]
    assert read("recover", "queue:orders", "--again", "--wait", 0, "--yes")["progress"]["forwarded"] == 3


def test_dead_letters_are_named_and_one_flag_reads_them(run, ok, read, orders):
    ok("send", orders, "x")
    ok("receive", orders, "--dead-letter", "InvalidJson")
    ran = run("recover", "--all", "--yes")
    assert ran.exit_code == 4
    assert ran.stderr == (
        "error: no failed message matches status:unresolved; 1 dead letter of orders is not read: add --dead\n"
    )
    assert "1 dead letter of orders is not read: add --dead" in run("recover", "--all", "--dry-run").stderr
    assert read("recover", "--all", "--dead", "--wait", 0, "--yes")["progress"]["forwarded"] == 1
    assert [each["body"] for each in read("peek", orders)] == ["x"]


@pytest.mark.usefixtures("failures")
def test_the_same_key_is_the_same_request_after_its_end(read):
    first = read("recover", "queue:orders", "--key", "k", "--wait", 0, "--yes")
    assert first["state"] == "completed"
    assert read("recover", "queue:orders", "--key", "k", "--wait", 0, "--yes")["number"] == first["number"]
    assert len(read("operations", "list")) == 1


@pytest.mark.usefixtures("failures")
def test_what_sends_nothing_can_be_limited(ok, read):
    ok("ingest")
    assert ok("archive", "--all", "--limit", 2, "--dry-run") == "2 match, 2 are available\n"
    assert read("archive", "--all", "--limit", 2, "--yes")["progress"]["forwarded"] == 2
    assert [each["number"] for each in read("failed", "list")] == [3]


@pytest.mark.usefixtures("failures")
def test_recover_asks_a_person_and_a_script_has_to_say_yes(run, monkeypatch):
    assert "add --yes" in run("recover", "--all").stderr
    monkeypatch.setattr("redrive.cli.output.prompt.is_interactive", lambda: True)
    asked = run("recover", "--all", "--set-json", "/id:=9", stdin="n\n")
    assert asked.exit_code == 1
    assert "Recover 3 failed messages (3 to orders)?" in asked.stderr
    assert '+  "id": 9' in asked.stderr, "an example of what changes is shown first"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "--all of them"),
        (("queue:nowhere",), 4, "no failed message matches queue:nowhere"),
        (("qeue:orders",), 2, "did you mean 'queue'?"),
        (("--all", "--to", "nowhere"), 5, "there is no queue 'nowhere'"),
        (("--id", "17"), 3, "no failed message has the id '17'"),
        (("--all", "--rate", "0"), 2, "rate=0.0: must be"),
        (("--all", "--rate", "nan"), 2, "rate=nan: must be"),
        (("--all", "--limit", "0"), 2, "limit=0: must be a whole number from 1"),
        (("--all", "--canary", "0"), 2, "canary=0: must be a whole number from 1 to 1,000"),
        (("--all", "--canary", "1", "--patience", "0"), 2, "patience=0.0: must be"),
        (("--all", "--canary", "1", "--patience", "none"), 2, "patience"),
        (("--all", "--max-failures", "0"), 2, "--max-failures needs --canary"),
        (("--all", "--patience", "1m"), 2, "--patience needs --canary"),
        (("--all", "--at", "2026-11-01", "--in", "1h"), 2, "say either --at or --in"),
        (("--all", "--in", "-5"), 2, "--in '-5': write 0 or more seconds"),
        (("--all", "--to", ""), 5, "there is no queue ''"),
        (("--all", "--queue", ""), 2, "a value is missing"),
        (("--text", ""), 2, "1 to 1,024"),
        (("--all", "--wait", "nan"), 2, "--wait 'nan': write 0 or more seconds"),
        (("--all", "--canary", "2", "--max-failures", "2"), 2, "max_failures=2: must be"),
        (("--all", "--at", "tomorrow"), 2, "write a date such as"),
        (("--all", "--set-json", "id=1"), 2, "must be JSON pointers"),
        (("--all", "--set-json", "/id:=x"), 2, "for a text write = instead of :="),
        (("--all", "--set-header", "x"), 2, "write NAME=TEXT"),
        (("--all", "--replace", "x"), 2, "write OLD=NEW"),
        (("--all", "--set-header", "redrive-recovery-id=1"), 2, "must stay as it is"),
        (("--all", "--body-from", "nowhere"), 1, "nowhere cannot be read"),
        (("--ids-from", "nowhere"), 1, "nowhere cannot be read"),
        (("--ids-from", "-", "queue:orders"), 2, "not both"),
    ],
)
@pytest.mark.usefixtures("failures")
def test_bad_requests_each_have_their_answer(run, read, arguments, status, said):
    ran = run("recover", *arguments, "--yes")
    assert ran.exit_code == status, ran.output
    assert said in ran.stderr
    assert ran.stdout == ""
    assert read("operations", "list") == []


@pytest.mark.usefixtures("failures")
def test_ids_come_from_a_file_or_a_pipe(run, read):
    ids = [each["id"] for each in read("failed", "list")]
    lines = f"{ids[0]}\n\n{json.dumps({'id': ids[1]})}\nnonsense\n"
    ran = run("recover", "--ids-from", "-", "--yes", "--wait", 0, stdin=lines)
    assert ran.exit_code == 0, ran.output
    assert "1 id is unknown: nonsense" in ran.stdout
    assert "2 of 2" in ran.stdout
    unknown = run("recover", "--ids-from", "-", "--yes", stdin="nonsense\n")
    assert unknown.exit_code == 3
    assert "no failed message has these ids: nonsense" in unknown.stderr


@pytest.mark.usefixtures("failures")
def test_the_same_request_twice_names_the_first(run, ok):
    ok("recover", "queue:orders", "--detach", "--yes")
    again = run("recover", "queue:orders", "--yes")
    assert again.exit_code == 6
    assert "operation 1 is doing the same" in again.stderr
    assert "redrive operations watch 1" in again.stderr
    archiving = run("archive", "queue:orders", "--yes")
    assert archiving.exit_code == 6
    assert "operation 1" in archiving.stderr


@pytest.mark.usefixtures("failures")
def test_the_same_key_twice_is_the_same_request(ok, read):
    ok("recover", "queue:orders", "--key", "k", "--detach", "--yes")
    assert read("recover", "queue:orders", "--key", "k", "--wait", 0, "--yes")["number"] == 1
    assert len(read("operations", "list")) == 1


@pytest.mark.usefixtures("failures")
def test_what_fails_again_is_counted_and_makes_the_status(run, ok, read):
    ok("recover", "--all", "--wait", 0, "--yes")
    handle(3, failing=1)
    ran = run("operations", "watch", 1)
    assert ran.exit_code == 8
    assert "█ succeeded 2  ▒ failed again 1" in ran.stdout
    assert "redrive operations show 1 --outcome failed-again" in ran.stdout
    assert [each["status"] for each in read("failed", "list", "status:any")].count("resolved") == 2


@pytest.mark.usefixtures("failures")
def test_canaries_that_fail_stop_the_rest(run, ok, read):
    ok("recover", "--all", "--canary", 1, "--detach", "--yes")
    ok("operations", "set-rate", 1, "none")
    step()
    handle(1, failing=1)
    ran = run("operations", "watch", 1)
    assert ran.exit_code == 9
    assert "is paused: 1 of the first 1 failed again" in ran.stdout
    assert "redrive operations resume 1" in ran.stdout
    assert "redrive operations cancel 1" in ran.stdout
    assert run("operations", "resume", 1, "--wait", 0).exit_code == 8, "one of them has failed again"
    assert read("operations", "show", 1)["progress"]["remaining"] == 0


def step():
    """Do what there is to do now, as any process does."""
    import asyncio

    from redrive import connect, open_recovery

    async def work():
        async with connect(URL) as broker, open_recovery(broker) as recovery:
            while await recovery.step():
                if not (await recovery.operations(is_open=True))[0].progress.forwarded:
                    continue
                return

    asyncio.run(work())


@pytest.mark.usefixtures("failures")
def test_messages_are_changed_on_their_way(ok, read, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    ok("ingest")
    shown = ok("recover", "--all", "--set-json", "/currency=EUR", "--set-header", "n:=1", "--preview", "--limit", 1)
    assert "header 'n' added: 1" in shown
    assert '+  "currency": "EUR"' in shown
    assert read("operations", "list") == []
    ok("recover", "--all", "--set-json", "/currency=EUR", "--remove-header", "customer", "--wait", 0, "--yes")
    sent = read("peek", "orders")[0]
    assert json.loads(sent["body"]) == {"id": 1, "currency": "EUR"}
    assert "customer" not in sent["headers"]


@pytest.mark.usefixtures("failures")
def test_recover_to_another_queue_and_later(ok, read):
    ok("queues", "declare", "by-hand")
    assert read("recover", "--id", 1, "--to", "by-hand", "--in", "1h", "--detach", "--yes")["state"] == "scheduled"
    told = read("recover", "--id", 2, "--to", "by-hand", "--at", "2026-01-01T00:00", "--wait", 0, "--yes")
    assert told["plan"]["not_before"] == "2026-01-01T00:00:00+00:00"
    assert [each["body"] for each in read("peek", "by-hand")] == ['{"id": 2}']
    assert "to by-hand; not before" in ok("operations", "show", 1)


@pytest.mark.usefixtures("failures")
def test_archive_restore_and_resolve(ok, read):
    ok("ingest")
    assert ok("archive", "queue:orders", "--dry-run") == "3 match, 3 are available\n"
    assert "█ done 3" in ok("archive", "queue:orders", "--reason", "test data", "--yes")
    assert ok("failed", "list") == "no unresolved failed messages; 3 with another status match: add status:any\n"
    assert ok("failed", "list", "queue:orders") == (
        "no unresolved failed message matches queue:orders; 3 with another status match: add status:any\n"
    )
    assert read("restore", "--id", 1, "--yes")["progress"]["forwarded"] == 1
    assert read("resolve", "--id", 1, "--reason", "booked by hand", "--yes")["kind"] == "resolve"
    assert [each["status"] for each in read("failed", "list", "status:any")] == ["resolved", "archived", "archived"]


@pytest.mark.usefixtures("failures")
def test_edit_shows_the_difference_and_sends_a_copy(run, ok, read, tmp_path):
    ran = run("edit", 1, "--set-json", "/id:=100", "--wait", 0, "--yes")
    assert ran.exit_code == 0, ran.output
    assert '-  "id": 1' in ran.stderr
    assert '+  "id": 100' in ran.stderr
    sent = read("peek", "orders")[0]
    assert sent["body"] == '{"id":100}'
    assert sent["id"] != read("failed", "show", 1)["message_id"]
    (tmp_path / "body").write_text("new")
    assert "+new" in ok("edit", 2, "--body-from", "body", "--dry-run")
    assert run("edit", 2, "--set-json", "/a/b=c", "--yes").exit_code == 2


@pytest.mark.parametrize(
    ("script", "sent_as"),
    [
        ("s/ 1}/ 5}/", ('{"id": 5}', {"customer": "7"}, None)),
        ("s/^customer: .*/customer: 8/", ('{"id": 1}', {"customer": 8}, None)),
        ("s/^customer.*/@subject: order/", ('{"id": 1}', {}, "order")),
        ("/^customer/d", ('{"id": 1}', {}, None)),
    ],
)
@pytest.mark.usefixtures("failures")
def test_edit_opens_the_editor(run, read, monkeypatch, script, sent_as):
    monkeypatch.setenv("VISUAL", f"sed -i -e '{script}'")
    assert run("edit", 1, "--yes", "--wait", 0).exit_code == 0
    sent = read("peek", "orders")[0]
    headers = {name: value for name, value in sent["headers"].items() if not name.startswith("redrive-")}
    assert (sent["body"], headers, sent["subject"]) == sent_as


@pytest.mark.parametrize("script", ["/^$/d", "1i no header"])
@pytest.mark.usefixtures("failures")
def test_what_an_editor_leaves_must_be_a_message(run, read, monkeypatch, script):
    monkeypatch.setenv("VISUAL", f"sed -i -e '{script}'")
    ran = run("edit", 1, "--yes")
    assert (ran.exit_code, "empty line before the body" in ran.stderr) == (2, True)
    assert read("operations", "list") == []


@pytest.mark.usefixtures("failures")
def test_an_editor_that_changes_nothing_sends_nothing(ok, run, read, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "true")
    assert ok("edit", 1, "--yes") == "nothing was changed, and nothing was sent\n"
    monkeypatch.setenv("EDITOR", "an-editor-that-is-not-there")
    assert "name another in $EDITOR" in run("edit", 1, "--yes").stderr
    assert read("operations", "list") == []


# --- real processes


@pytest.fixture
def start(tmp_path):
    """Start a command as a person would; it is gone after the test."""
    started = []

    def starter(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "redrive.cli", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "80"},
        )
        started.append(process)
        return process

    yield starter
    for process in started:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def test_the_first_interrupt_stops_watching_and_says_how_to_go_on(start, ok, fail):
    fail(*map(str, range(30)))
    process = start("recover", "--all", "--rate", 2, "--yes")
    line = next(line for line in iter(process.stderr.readline, "") if "Ctrl-C" in line)
    assert line == "operation 1; no other process serves: after Ctrl-C it waits for redrive operations watch 1\n"
    process.send_signal(signal.SIGINT)
    said, problems = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, problems
    assert "operation 1 (recover) is running" in said
    assert problems.startswith("stopped watching operation 1: no other process serves, so nothing more is sent for now")
    assert "redrive operations watch 1" in problems
    ok("operations", "set-rate", 1, "none")
    assert "30 of 30" in ok("operations", "watch", 1, "--wait", 0)


def test_the_first_interrupt_says_who_goes_on(start, ok, read, fail):
    fail(*map(str, range(30)))
    start("operations", "run")
    while not read("operations", "services"):
        pass
    process = start("recover", "--all", "--rate", 2, "--yes")
    line = next(line for line in iter(process.stderr.readline, "") if "Ctrl-C" in line)
    assert line == "operation 1; after Ctrl-C 1 other process continues with it\n"
    process.send_signal(signal.SIGINT)
    _, problems = process.communicate(timeout=30)
    assert process.returncode == 130, problems
    assert problems.startswith("stopped watching operation 1: 1 other process continues with it\n")
    ok("operations", "set-rate", 1, "none")
    while read("operations", "show", 1)["state"] != "completed":
        pass


@pytest.mark.torture
def test_a_command_that_was_killed_is_gone_on_with(start, fail, read):
    fail(*map(str, range(60)))
    process = start("recover", "--all", "--rate", 20, "--yes")
    while not (found := read("operations", "list")) or not found[0]["progress"]["forwarded"]:
        assert process.poll() is None
    process.kill()
    told = read("operations", "watch", 1, "--wait", 0)
    assert told["progress"]["forwarded"] == 60
    assert sorted(int(each["body"]) for each in read("peek", "orders", "--max", 100)) == list(range(60))
