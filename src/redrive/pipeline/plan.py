# SPDX-License-Identifier: MIT
"""A pipeline as one value: what code and files compile to. It is checked as a whole. Pure: no I/O, no clock."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeAlias

from redrive import duration, number
from redrive.errors import DestinationNotFound, InvalidPipeline, InvalidSetting, RedriveError
from redrive.pipeline.cadence import Backstop, CatchUp, Limits, Timing, WhenEmpty
from redrive.pipeline.items import MergeFunction, ProcessFunction, ReceiveFunction
from redrive.pipeline.records import QUEUES, batch_queue, process_queue, send_queue
from redrive.pipeline.send_decision import OnUnknown, SendPolicy
from redrive.pipeline.transport import BrokerTransport, Transport

Guarantee: TypeAlias = Literal["effectively_once", "at_least_once", "at_most_once"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NAME_RULE: Final = "must have 1 to 100 letters, digits, '.', '_' or '-', and begin with a letter or a digit"
_WHEN_EMPTY: Final = ("skip", "send", "send_once_per_day")
_CATCH_UP: Final = ("latest", "all", "none")
_ON_UNKNOWN: Final = ("probe", "resend", "park")
_GUARANTEES: Final = ("effectively_once", "at_least_once", "at_most_once")
_MINUTE, _HOUR = 60.0, 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDestination:
    """Where a pipeline sends to, when, and what if that fails.

    Attributes:
        name: its name.
        transport: how it is reached.
        timing: when its slots are; None: everything is sent at once.
        limits: what closes a batch before its slot.
        backstop: how long something may wait for a slot.
        when_empty: what is done in a slot for which nothing waits.
        catch_up: which of the slots that were missed are served afterwards.
        catch_up_window: how many seconds back.
        merge: makes one or several shipments of items; None: each item is a shipment.
        max_tasks: how many tasks one slot takes at most; the rest is taken by the next round of the same slot.
        retry: seconds before each retry of sending.
        jitter: by which share these are varied.
        guarantee: what is promised of each shipment; None: the strongest that the transport can give.
        on_unknown: what is done with a shipment that may have arrived; None: what the guarantee allows.
        rate: how many shipments a second it takes, over all processes; None: any number.
        concurrency: how many tasks a process sends at a time.
        breaker_failures: after how many failures in a row it counts as away.
        probe_after: seconds until it is tried again then.
    """

    name: str
    transport: Transport
    timing: Timing | None = None
    limits: Limits = field(default_factory=Limits)
    backstop: Backstop = field(default_factory=Backstop)
    when_empty: WhenEmpty = "skip"
    catch_up: CatchUp = "latest"
    catch_up_window: float = 7 * 24 * _HOUR
    merge: MergeFunction | None = None
    max_tasks: int = 10_000
    retry: tuple[float, ...] = (10 * _MINUTE, _HOUR, 4 * _HOUR, 12 * _HOUR)
    jitter: float = 0.2
    guarantee: Guarantee | None = None
    on_unknown: OnUnknown | None = None
    rate: float | None = None
    concurrency: int = 4
    breaker_failures: int = 5
    probe_after: float = 30.0

    def __post_init__(self) -> None:
        put = object.__setattr__
        if not isinstance(self.transport, Transport):
            raise InvalidSetting("transport", self.transport, "must be a transport, such as FileTransport('outbox')")
        put(self, "retry", _delays(self.retry))
        put(self, "catch_up_window", duration.seconds("catch_up_window", self.catch_up_window))
        put(self, "probe_after", duration.seconds("probe_after", self.probe_after))
        put(self, "max_tasks", number.whole("max_tasks", self.max_tasks))
        put(self, "concurrency", number.whole("concurrency", self.concurrency))
        put(self, "breaker_failures", number.whole("breaker_failures", self.breaker_failures))
        for name, words in (("when_empty", _WHEN_EMPTY), ("catch_up", _CATCH_UP)):
            _check_word(name, getattr(self, name), words)
        if not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            raise InvalidSetting("jitter", self.jitter, "must be a share from 0 to 1")
        if self.rate is not None and (not isinstance(self.rate, int | float) or not self.rate > 0):
            raise InvalidSetting("rate", self.rate, "must be a number of shipments a second, more than 0")
        if self.merge is not None and not callable(self.merge):
            raise InvalidSetting("merge", self.merge, "must be a function of items, or its name 'module:function'")
        put(self, "guarantee", self._checked_guarantee())
        put(self, "on_unknown", self._checked_on_unknown())
        self._check_timing()

    def _checked_guarantee(self) -> Guarantee:
        can_be_once = self.transport.deduplicates or self.transport.can_probe
        if self.guarantee is None:
            return "effectively_once" if can_be_once else "at_least_once"
        _check_word("guarantee", self.guarantee, _GUARANTEES)
        if self.guarantee == "effectively_once" and not can_be_once:
            kind = f"transport {self.transport.kind!r}"
            allowed = (
                f"must be at_least_once or at_most_once: {kind} can neither drop a repetition nor be asked what it has"
            )
            raise InvalidSetting("guarantee", self.guarantee, allowed)
        return self.guarantee

    def _checked_on_unknown(self) -> OnUnknown:
        can = self.transport
        if self.on_unknown is None:
            if can.can_probe:
                return "probe"
            return "park" if self.guarantee == "at_most_once" else "resend"
        _check_word("on_unknown", self.on_unknown, _ON_UNKNOWN)
        if self.on_unknown == "probe" and not can.can_probe:
            raise InvalidSetting("on_unknown", "probe", f"must be another: transport {can.kind!r} cannot be asked")
        if self.on_unknown == "resend" and self.guarantee == "at_most_once":
            raise InvalidSetting("on_unknown", "resend", "must be park or probe, as the guarantee is at_most_once")
        if self.on_unknown == "resend" and self.guarantee == "effectively_once" and not can.deduplicates:
            raise InvalidSetting("on_unknown", "resend", f"must be probe or park: {can.kind!r} keeps repetitions")
        return self.on_unknown

    def _check_timing(self) -> None:
        if self.timing is not None:
            if not isinstance(self.timing, Timing):
                raise InvalidSetting("timing", self.timing, "must be PerDay(…), Cron(…) or Every(…)")
            return
        if self.limits != Limits():
            raise InvalidSetting("limits", self.limits, "needs a timing: without one, everything is sent at once")
        if self.when_empty != "skip":
            raise InvalidSetting("when_empty", self.when_empty, "needs a timing: there are no slots without one")

    @property
    def policy(self) -> SendPolicy:
        """How sending is tried again."""
        return SendPolicy(delays=self.retry, jitter=self.jitter, on_unknown=self.on_unknown or "park")

    def to_table(self) -> dict[str, Any]:
        """Return it as files write it."""
        table: dict[str, Any] = {"transport": self.transport.to_table()}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in ("name", "transport") or value is None:
                continue
            table[each.name] = _plain(value)
        return table


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlan:
    """A pipeline.

    Attributes:
        name: its name.
        process: what makes outputs for destinations of a report.
        destinations: where it sends to, by their names.
        receive: checks submissions, and takes them apart; None: a submission is one item.
        path: where submissions are received over HTTP; None: they are not.
        max_bytes: how large a submission may be.
        needs_key: whether a submission must have a key.
        tries: how often processing is tried.
        retry: seconds before each further try; the last one is repeated.
        final: the exceptions of the process function that no further try would mend.
        concurrency: how many reports a process works on at a time.
        keep: seconds that ended tasks and their bodies are kept.
    """

    name: str
    process: ProcessFunction
    destinations: Mapping[str, PipelineDestination]
    receive: ReceiveFunction | None = None
    path: str | None = None
    max_bytes: int = 10 * 1_048_576
    needs_key: bool = True
    tries: int = 5
    retry: tuple[float, ...] = (5.0, 20.0, 60.0, 300.0)
    final: tuple[type[Exception], ...] = ()
    concurrency: int = 8
    keep: float = 60 * 24 * _HOUR

    def __post_init__(self) -> None:
        put = object.__setattr__
        try:
            check_name("name", self.name)
            if not callable(self.process):
                raise InvalidSetting("process", self.process, "must be a function: write @pipe.process above it")
            put(self, "tries", number.whole("tries", self.tries))
            put(self, "max_bytes", number.whole("max_bytes", self.max_bytes))
            put(self, "concurrency", number.whole("concurrency", self.concurrency))
            put(self, "retry", _delays(self.retry))
            put(self, "keep", duration.seconds("keep", self.keep))
            if not self.destinations:
                raise InvalidSetting("destinations", (), "must have one destination at least")
        except RedriveError as error:
            raise InvalidPipeline(str(self.name), getattr(error, "setting", ""), str(error)) from None
        for name, destination in self.destinations.items():
            self._check(name, destination)

    def _check(self, name: str, destination: PipelineDestination) -> None:
        if not _NAME.fullmatch(name):
            raise InvalidPipeline(self.name, f"destinations.{name}", f"the name {_NAME_RULE}")
        if isinstance(destination.transport, BrokerTransport) and destination.transport.address.startswith(QUEUES):
            problem = (
                "it sends into the queue of a pipeline, so that its tasks would go round in a circle; send elsewhere"
            )
            raise InvalidPipeline(self.name, f"destinations.{name}.transport", problem)

    def destination(self, name: str) -> PipelineDestination:
        """Return a destination.

        Raises:
            DestinationNotFound: there is none of this name.
        """
        if name not in self.destinations:
            raise DestinationNotFound(self.name, name, tuple(self.destinations))
        return self.destinations[name]

    def with_destinations(self, destinations: Mapping[str, PipelineDestination]) -> "PipelinePlan":
        """Return the same pipeline with other destinations."""
        return replace(self, destinations=dict(destinations))

    # --- its queues

    @property
    def process_queue(self) -> str:
        """The queue of its process stage."""
        return process_queue(self.name)

    @property
    def batch_queue(self) -> str:
        """The queue of its batch stage."""
        return batch_queue(self.name)

    def send_queue(self, destination: str) -> str:
        """Return the queue of what is to be sent to a destination."""
        return send_queue(self.name, destination)

    @property
    def queues(self) -> tuple[str, ...]:
        """All its queues."""
        return (self.process_queue, self.batch_queue, *(self.send_queue(name) for name in self.destinations))

    # --- how it is shown

    def to_table(self) -> dict[str, Any]:
        """Return it as files write it: functions as their names."""
        head = {each.name: _plain(getattr(self, each.name)) for each in fields(self) if each.name != "destinations"}
        return {
            "pipeline": {name: value for name, value in head.items() if value is not None},
            "destinations": {name: each.to_table() for name, each in self.destinations.items()},
        }

    @property
    def definition(self) -> str:
        """It as JSON: equal plans have equal texts."""
        return json.dumps(self.to_table(), sort_keys=True, ensure_ascii=False)

    def mermaid(self) -> str:
        """Return a drawing of it for pages that show Mermaid."""
        lines = [
            "flowchart LR",
            f'    receive["receive {self.path or ""}"] --> process["process: {_called(self.process)}"]',
        ]
        for number_, (name, each) in enumerate(self.destinations.items(), 1):
            send = f'send{number_}["{each.transport.kind}: {name}"]'
            if each.timing is None:
                lines.append(f"    process --> {send}")
            else:
                lines.append(f'    process --> batch{number_}(["batch: {each.timing}"]) --> {send}')
        return "\n".join(lines)


def check_name(setting: str, name: object) -> str:
    """Return a name that queues and files can have."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSetting(setting, name, _NAME_RULE)
    return name


def _check_word(name: str, value: object, words: tuple[str, ...]) -> None:
    if value not in words:
        raise InvalidSetting(name, value, f"must be one of: {', '.join(words)}")


def _delays(delays: object) -> tuple[float, ...]:
    if isinstance(delays, str) or not isinstance(delays, list | tuple):
        raise InvalidSetting("retry", delays, "must be a list of waits, such as ['10m', '1h', '4h']")
    return tuple(
        duration.parse("retry", each) if isinstance(each, str) else duration.seconds("retry", each, zero=True)
        for each in delays
    )


def _called(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', repr(function))}"


def _plain(value: Any) -> Any:  # noqa: ANN401 - a setting of any kind
    if hasattr(value, "to_table"):
        return value.to_table()
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return _called(value) if callable(value) else value
