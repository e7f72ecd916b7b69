# SPDX-License-Identifier: MIT
"""A pipeline as one value: what is refused, with the fix, and how it is shown."""

import pytest

from redrive.errors import InvalidPipeline, InvalidSetting, PipelineFileError, UnknownSetting
from redrive.pipeline import Every, Limits, Output, PerDay, Pipeline, PipelineDestination, add_transport, parse_pipeline
from redrive.pipeline.plan_file import with_stored_destinations
from redrive.pipeline.transports.queue import QueueTransport
from tests.pipeline.pipeline_bench import ScriptedTransport, joined, pipeline

add_transport(ScriptedTransport)

FILE = """
[pipeline]
name = "reports"
process = "tests.pipeline.test_plan:route"
tries = 4
keep = "30d"

[destinations.lab]
transport = { kind = "scripted", name = "lab" }
timing = { per_day = 24, start = "00:15", zone = "Europe/Berlin" }
merge = "tests.pipeline.pipeline_bench:joined"
retry = ["10m", "1h"]
limits = { max_items = 500 }

[destinations.now]
transport = { kind = "scripted", name = "now", can = "probe" }
"""


def route(report):
    yield Output("lab", report.items)


def to(can="dedup", **settings):
    return PipelineDestination(name="lab", transport=ScriptedTransport("lab", can=can), **settings)


def test_code_and_files_make_the_same_value():
    from_file = parse_pipeline(FILE)
    pipe = Pipeline("reports", keep=30 * 86_400)
    pipe.process(route, tries=4)
    pipe.destination(
        "lab",
        ScriptedTransport("lab"),
        timing=PerDay(24, "00:15", "Europe/Berlin"),
        merge=joined,
        retry=[600, 3_600],
        limits=Limits(max_items=500),
    )
    pipe.destination("now", ScriptedTransport("now", can="probe"))
    assert pipe.plan.definition == from_file.definition
    assert pipe.plan == from_file


class BadReport(Exception):
    """No further try mends it."""


def test_a_file_names_the_exceptions_that_no_further_try_would_mend():
    named = FILE.replace("tries = 4", "final = ['ValueError', 'tests.pipeline.test_plan:BadReport']")
    assert parse_pipeline(named).final == (ValueError, BadReport)


@pytest.mark.parametrize(
    ("final", "said"),
    [
        ("'ValueError'", "must be a list of names"),
        ("[5]", "must be a list of names"),
        ("['NoError']", "cannot be imported"),
        ("['print']", "must be the name of an exception"),
        ("['KeyboardInterrupt']", "must be the name of an exception"),
    ],
)
def test_what_is_no_exception_is_refused_with_its_line(final, said):
    with pytest.raises(PipelineFileError, match=said) as refused:
        parse_pipeline(FILE.replace("tries = 4", f"final = {final}"))
    assert refused.value.line == 5


def test_a_stored_pipeline_can_be_read_again():
    import json

    plan = parse_pipeline(FILE)
    assert with_stored_destinations(plan, json.loads(plan.definition)) == plan


def test_it_is_drawn():
    drawn = parse_pipeline(FILE).mermaid()
    assert drawn.startswith("flowchart LR")
    assert "24 times a day from 00:15 Europe/Berlin" in drawn
    assert "scripted: now" in drawn


@pytest.mark.parametrize(
    ("can", "guarantee", "on_unknown"),
    [
        ("dedup", "effectively_once", "resend"),
        ("probe", "effectively_once", "probe"),
        ("nothing", "at_least_once", "resend"),
    ],
)
def test_the_strongest_guarantee_is_the_default(can, guarantee, on_unknown):
    assert (to(can).guarantee, to(can).on_unknown) == (guarantee, on_unknown)


@pytest.mark.parametrize(
    ("can", "settings", "setting"),
    [
        ("nothing", {"guarantee": "effectively_once"}, "guarantee"),
        ("nothing", {"on_unknown": "probe"}, "on_unknown"),
        ("probe", {"on_unknown": "resend"}, "on_unknown"),
        ("dedup", {"guarantee": "at_most_once", "on_unknown": "resend"}, "on_unknown"),
        ("dedup", {"guarantee": "exactly_once"}, "guarantee"),
        ("dedup", {"when_empty": "send"}, "when_empty"),
        ("dedup", {"limits": Limits(max_items=3)}, "limits"),
        ("dedup", {"timing": "daily"}, "timing"),
        ("dedup", {"when_empty": "often", "timing": Every(60)}, "when_empty"),
        ("dedup", {"catch_up": "some", "timing": Every(60)}, "catch_up"),
        ("dedup", {"retry": "10m"}, "retry"),
        ("dedup", {"retry": [-1]}, "retry"),
        ("dedup", {"jitter": 2}, "jitter"),
        ("dedup", {"rate": 0}, "rate"),
        ("dedup", {"merge": "joined"}, "merge"),
        ("dedup", {"concurrency": 0}, "concurrency"),
    ],
)
def test_a_destination_that_cannot_work_is_refused(can, settings, setting):
    with pytest.raises(InvalidSetting) as caught:
        to(can, **settings)
    assert caught.value.setting == setting


def test_a_destination_needs_a_transport():
    with pytest.raises(InvalidSetting, match="transport"):
        PipelineDestination(name="lab", transport="sftp://lab")


def test_a_pipeline_that_cannot_work_is_refused():
    pipe = Pipeline("reports")
    with pytest.raises(InvalidPipeline, match=r"@pipe\.process"):
        _ = pipe.plan
    pipe.process(route)
    with pytest.raises(InvalidPipeline, match="one destination"):
        _ = pipe.plan
    pipe.destination("lab", ScriptedTransport("lab"))
    with pytest.raises(InvalidPipeline, match="already"):
        pipe.destination("lab", ScriptedTransport("lab"))
    with pytest.raises(InvalidPipeline, match=r"destinations\.new\.guarantee"):
        pipe.destination("new", ScriptedTransport("new", can="nothing"), guarantee="effectively_once")
    with pytest.raises(UnknownSetting, match="timings"):
        pipe.destination("new", ScriptedTransport("new"), timings=Every(60))


def test_a_pipeline_that_feeds_itself_is_refused():
    pipe = pipeline("lab")
    pipe.destination("round", QueueTransport("pipelines/reports/process"))
    with pytest.raises(InvalidPipeline, match="circle"):
        _ = pipe.plan


@pytest.mark.parametrize("name", ["", "a/b", "ä", "a b", "-a", "x" * 101])
def test_a_name_that_queues_cannot_have_is_refused(name):
    pipe = Pipeline(name)
    pipe.process(route)
    pipe.destination("lab", ScriptedTransport("lab"))
    with pytest.raises(InvalidPipeline, match="letters"):
        _ = pipe.plan


@pytest.mark.parametrize(
    ("before", "after", "line", "said"),
    [
        ("[pipeline]", "[pipelin]", 2, "pipeline"),
        ('zone = "Europe/Berlin"', 'zone = "Europe/Berlim"', 10, "Europe/Berlin"),
        ("per_day = 24", 'cron = "0 0 30 2 *"', 10, "timing"),
        ('merge = "tests.pipeline.pipeline_bench:joined"', 'merge = "tests.pipeline.pipeline_bench:j"', 11, "imported"),
        ('kind = "scripted", name = "lab"', 'kind = "scriptet", name = "lab"', 9, "scripted"),
        ("tries = 4", "trys = 4", 5, "tries"),
        ("tries = 4", "tries = 0", 5, "tries"),
        ('retry = ["10m", "1h"]', 'retry = ["soon"]', 12, "retry"),
        ('can = "probe"', 'cann = "probe"', 16, "can"),
        ('process = "tests.pipeline.test_plan:route"', "", 2, "process"),
        ("[destinations.now]", "[destinations.lab]", 15, "TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line_and_the_fix(before, after, line, said):
    with pytest.raises(PipelineFileError) as caught:
        parse_pipeline(FILE.replace(before, after))
    assert caught.value.line == line
    assert said in str(caught.value)
