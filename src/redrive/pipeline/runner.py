# SPDX-License-Identifier: MIT
"""Runs the stages of a pipeline in this process. Several processes may run the same pipeline."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from redrive.broker import counted
from redrive.clock import pause
from redrive.errors import EngineUnavailable, RedriveError, UsageError
from redrive.http.server import SharedHttpServer
from redrive.pipeline.batch_stage import BatchStage
from redrive.pipeline.decider import Decider
from redrive.pipeline.events import DestinationStopped
from redrive.pipeline.intake import PipelineIntake
from redrive.pipeline.open_pipeline import MAX_DELIVERY_COUNT, OpenPipeline
from redrive.pipeline.plan_file import with_stored_destinations
from redrive.pipeline.process_stage import ProcessStage
from redrive.pipeline.send_stage import DestinationBreaker, SendStage, breaker_of
from redrive.pipeline.send_tallies import key_of
from redrive.pipeline.stage import Handle, PipelineEnvironment, decide_stage
from redrive.printable import one_line
from redrive.telemetry import Event, is_traced, report
from redrive.tracing import span
from redrive.worker import Context, Worker, signals

_LOOK_EVERY_S: Final = 1.0
_DECIDE_EVERY_S: Final = 60.0
_PRUNE_AT_ONCE: Final = 500
_LONGEST_WORK_S: Final = 3_600.0
_GRACE_S: Final = 30.0

_Running = tuple[Worker, "asyncio.Task[None]"]


class PipelineRunner:
    """Runs a pipeline until it is stopped.

    Args:
        pipeline: the pipeline; it is open, and stays so.
        listen: where submissions are received over HTTP, if the pipeline has a path; port 0 is any that is free.
        http: a server that this runner shares with others, instead of one of its own; it stays open.
        on_event: a function that gets every telemetry event, beside logging and OpenTelemetry.
        chance: where random numbers come from, 0 <= x < 1.
    """

    def __init__(
        self,
        pipeline: OpenPipeline,
        *,
        listen: str = "127.0.0.1:8080",
        http: SharedHttpServer | None = None,
        on_event: Callable[[Event], object] | None = None,
        chance: Callable[[], float] = random.random,  # noqa: TID251 - the default; tests pass their own
    ) -> None:
        self._pipeline = pipeline
        self._clock = pipeline.broker.clock
        self._report = counted(partial(report, on_event=on_event), pipeline.broker, key_of)
        self._nudged = asyncio.Event()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._environment = PipelineEnvironment(
            broker=pipeline.broker,
            ledger=pipeline.ledger,
            clock=self._clock,
            chance=chance,
            report=self._report,
            plan=pipeline.plan,
            version=pipeline.version,
            nudge=self._nudged.set,
            fresh=pipeline.fresh,
        )
        self._has_own_http = http is None
        self.http = SharedHttpServer(listen, self._clock, extra="pipeline") if http is None else http
        self.decider = Decider(self._environment)
        self._stages: dict[str, _Running] = {}
        self._sending: dict[str, tuple[SendStage, _Running]] = {}
        self._breakers: dict[str, DestinationBreaker] = {}
        self._receiving: asyncio.Task[None] | None = None
        self._held: dict[str, bool] = {}

    # --- running

    async def run(self, *, handle_signals: bool = False, until: Awaitable[object] | None = None) -> None:
        """Run until ``stop()``.

        Args:
            handle_signals: whether SIGTERM and SIGINT stop it. This works in the program's main thread only.
            until: also stop when this is done; if it fails, its exception is raised.
        """
        if self._loop is not None:
            raise UsageError("this runner is running already; make another one")
        self._loop = asyncio.get_running_loop()
        waiting = None if until is None else asyncio.ensure_future(until)
        if waiting is not None:
            waiting.add_done_callback(lambda _: self._stopping.set())
        chosen = signals.STOP_SIGNALS if handle_signals else ()
        deciding = asyncio.create_task(self._keep_deciding(), name="redrive-pipeline-decider")
        try:
            with signals.handling_signals(chosen, self.stop):
                await self._follow()
        finally:
            deciding.cancel()
            await asyncio.wait([deciding])
            await self._close()
            if waiting is not None and not waiting.done():
                waiting.cancel()
            self._loop = None
        if waiting is not None and waiting.done() and not waiting.cancelled():
            waiting.result()

    def stop(self) -> None:
        """Take no more work, finish what has begun, and end; it may be called from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: it has stopped
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def _follow(self) -> None:
        """Start the stages, and see once a second whether something has changed."""
        self._start_stages()
        while not self._stopping.is_set():
            try:
                await self.reload()
            except EngineUnavailable as error:
                self._report(DestinationStopped(self._environment.plan.name, "", "broken", one_line(error, 300)))
            with suppress(TimeoutError):
                async with self._clock.timeout(_LOOK_EVERY_S):
                    await self._stopping.wait()

    async def reload(self) -> None:
        """Look now whether destinations have changed, are held or are released, instead of within a second."""
        await self._follow_versions()
        found = await self._pipeline.ledger.destinations(self._environment.plan.name, counted=())
        held = {each.name: each for each in found}
        for name in self._environment.plan.destinations:
            is_held = name in held and held[name].is_held
            if is_held and name in self._sending:
                await self._stop_sending(name)
                self._report_state(name, "held", held[name].reason)
            elif not is_held and name not in self._sending:
                self._start_sending(name)
        for name in [name for name in self._sending if name not in self._environment.plan.destinations]:
            await self._stop_sending(name)
        self._restart_ended()

    async def _follow_versions(self) -> None:
        """Take over destinations that another process has stored."""
        (version, definition), *_ = await self._pipeline.ledger.versions(self._environment.plan.name)
        if version in (self._environment.version, self._environment.refused_version):
            return
        try:
            plan = with_stored_destinations(self._environment.plan, json.loads(definition))
        except RedriveError as error:
            self._report_state("", "broken", f"version {version} cannot run here: {one_line(error, 300)}")
            self._environment.refused_version = version  # what runs goes on; what that version makes is left to others
            return
        changed = [
            name
            for name, each in plan.destinations.items()
            if self._environment.plan.destinations.get(name) != each and name in self._sending
        ]
        for name in plan.destinations:
            await self._environment.broker.declare(plan.send_queue(name), max_delivery_count=MAX_DELIVERY_COUNT)
        self._environment.plan, self._environment.version = plan, version
        self._pipeline.adopt(plan, version)
        for name in changed:
            await self._stop_sending(name)

    # --- stages

    def _start_stages(self) -> None:
        plan = self._environment.plan
        for name in ("process", "batch"):
            self._start_stage(name)
        if plan.path is not None:
            intake = PipelineIntake(self._environment)
            serving = self.http.serve(plan.path, ("POST",), intake.answer, plan.max_bytes)
            self._receiving = asyncio.create_task(serving, name="redrive-pipeline-http")

    def _start_stage(self, name: str) -> None:
        plan = self._environment.plan
        if name == "process":
            handle = ProcessStage(self._environment).handle
            self._stages[name] = self._started(name, plan.process_queue, handle, plan.concurrency)
        else:
            self._stages[name] = self._started(name, plan.batch_queue, BatchStage(self._environment).handle, 1)

    def _start_sending(self, name: str) -> None:
        destination = self._environment.plan.destinations[name]
        address = destination.transport.address
        if address not in self._breakers:
            self._breakers[address] = breaker_of(self._environment, destination)
        stage = SendStage(self._environment, destination, self._breakers[address])
        queue = self._environment.plan.send_queue(name)
        self._sending[name] = stage, self._started("send", queue, stage.handle, destination.concurrency)
        self._report_state(name, "running", "")

    async def _stop_sending(self, name: str) -> None:
        stage, (worker, task) = self._sending.pop(name)
        worker.stop()
        await asyncio.wait([task])
        await stage.close()

    def _started(self, stage: str, queue: str, handle: Handle, concurrency: int) -> _Running:
        quarantine = self._environment.quarantine
        facts = {"redrive.pipeline": self._environment.plan.name, "redrive.stage": stage}

        async def traced(body: bytes, context: Context) -> None:
            with span(f"{stage} stage of {self._environment.plan.name}", facts):
                await handle(body, context)

        async def guarded(body: bytes, context: Context) -> None:
            await quarantine.handle(traced if is_traced() else handle, body, context)

        worker = Worker(f"pipeline {self._environment.plan.name}", grace=_GRACE_S, chance=self._environment.chance)
        worker.handler(
            queue,
            concurrency=concurrency,
            recoverability=decide_stage,
            slow_down=None,
            max_lock_renewal=_LONGEST_WORK_S,
        )(guarded)
        task = asyncio.create_task(worker.run(self._environment.broker), name=f"redrive-{queue}")
        return worker, task

    def _restart_ended(self) -> None:
        """Start stages again that have ended with an error; one that cannot listen at its address ends the runner."""
        if self._receiving is not None and self._receiving.done():
            self._receiving.result()
        for name, (_, task) in list(self._stages.items()):
            if task.done():
                self._report_state("", "broken", f"{name} is started again, after {task.exception()}")
                self._start_stage(name)
        for name, (_, (_, task)) in list(self._sending.items()):
            if task.done():
                self._report_state(name, "broken", f"it is started again, after {task.exception()}")
                self._start_sending(name)

    async def _close(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            await asyncio.wait([self._receiving])
        running = [*self._stages.values(), *(each for _, each in self._sending.values())]
        for worker, _ in running:
            worker.stop()
        if running:
            await asyncio.wait([task for _, task in running])
        for stage, _ in self._sending.values():
            await stage.close()
        if self._has_own_http:
            await self.http.close()

    # --- the decider

    async def _keep_deciding(self) -> None:
        """Decide once a minute, and when something new waits for a slot that may be full."""
        while True:
            self._nudged.clear()
            try:
                await self.decider.decide()
                before = self._clock.time() - self._environment.plan.keep
                await self._environment.ledger.prune(before, _PRUNE_AT_ONCE, self._environment.plan.name)
            except Exception as error:  # noqa: BLE001 - without a decider nothing would be batched any more
                self._report_state("", "broken", one_line(error, 300))
            await pause(self._clock, _LOOK_EVERY_S)  # so that many new tasks are looked at together
            with suppress(TimeoutError):
                async with self._clock.timeout(self._until_next()):
                    await self._nudged.wait()

    def _until_next(self) -> float:
        """Return the seconds until the next slot, a minute at most."""
        now = self._clock.time()
        timings = [each.timing for each in self._environment.plan.destinations.values() if each.timing is not None]
        nearest = min((timing.next_after(now) - now for timing in timings), default=_DECIDE_EVERY_S)
        return max(0.05, min(nearest, _DECIDE_EVERY_S))

    def _report_state(self, destination: str, state: str, reason: str) -> None:
        if self._held.get(destination, False) != (state == "held") or state != "running":
            self._report(DestinationStopped(self._environment.plan.name, destination, state, reason))
        self._held[destination] = state == "held"
