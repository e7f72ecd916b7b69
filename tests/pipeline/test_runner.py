# SPDX-License-Identifier: MIT
"""How a process that runs a pipeline begins and ends."""

import sys

import pytest

import redrive
from redrive.errors import MissingExtra
from redrive.pipeline import Pipeline, PipelineRunner
from tests.pipeline.pipeline_bench import ScriptedTransport, pipeline


async def test_what_the_awaited_raises_ends_the_runner_and_is_raised(bench):
    async def breaks():
        raise LookupError("no such thing")

    async with redrive.open_pipeline(bench.broker, pipeline("now")) as reports:
        with pytest.raises(LookupError, match="no such thing"):
            await PipelineRunner(reports).run(until=breaks())


def forgetful():
    pipe = Pipeline("forgetful", keep=1)
    pipe.process(lambda _report: None)
    pipe.destination("now", ScriptedTransport("now"))
    return pipe


async def test_what_one_pipeline_keeps_is_not_removed_by_another(bench, monkeypatch):
    async with redrive.open_pipeline(bench.broker, pipeline("now")) as reports:
        await reports.cancel((await reports.submit(b"a", key="k")).task)
        bench.clock.advance(10)
        opened, pruned = redrive.open_pipeline(bench.broker, forgetful()), []
        async with opened:
            prune = opened.ledger.prune

            async def noted(*arguments):
                pruned.append(await prune(*arguments))

            monkeypatch.setattr(opened.ledger, "prune", noted)
            bench.reports = opened
            await bench.start(forgetful())
            await bench.until(lambda: pruned)
            await bench.stop()
        assert pruned[0] == 0
        assert not (await reports.submit(b"a", key="k")).is_new
        assert await reports.prune(bench.clock.time()) == 1


async def test_what_receiving_needs_is_named_if_it_is_not_installed(bench, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    pipe = pipeline("now")
    pipe._settings["path"] = "/reports"
    async with redrive.open_pipeline(bench.broker, pipe) as reports:
        with pytest.raises(MissingExtra) as raised:
            await PipelineRunner(reports, listen="127.0.0.1:0").run()
    assert raised.value.extra == "pipeline"
