# SPDX-License-Identifier: MIT
"""A pipeline that is declared in Python: decorators for its functions, a line for each destination."""

from collections.abc import Callable
from typing import Any, TypeVar

from redrive.errors import InvalidPipeline, RedriveError, UnknownSetting
from redrive.pipeline.plan import PipelineDestination, PipelinePlan
from redrive.pipeline.transport import Transport

F = TypeVar("F", bound=Callable[..., Any])


class Pipeline:
    """A pipeline: receive, process, batch, send.

    ::

        pipe = Pipeline("reports", path="/reports")


        @pipe.process
        def route(report):
            yield Output("lab", report.items)


        pipe.destination("lab", FileTransport("outbox"), timing=PerDay(24))

    Args:
        name: its name: letters, digits, ``.``, ``_`` and ``-``.
        settings: ``path``, ``max_bytes``, ``needs_key``, ``concurrency``, ``keep``, as ``PipelinePlan`` has them.
    """

    def __init__(self, name: str, **settings: Any) -> None:
        self.name = name
        known = ("path", "max_bytes", "needs_key", "concurrency", "keep")
        for setting in settings:
            if setting not in known:
                raise UnknownSetting("Pipeline", setting, known)
        self._settings: dict[str, Any] = dict(settings)
        self._destinations: dict[str, PipelineDestination] = {}

    def receive(self, function: F) -> F:
        """Let a function check submissions, and take them apart into items."""
        self._settings["receive"] = function
        return function

    def process(self, function: Callable[..., Any] | None = None, **settings: Any) -> Any:  # noqa: ANN401 - the function, or a decorator
        """Let a function make outputs for destinations of a report.

        Args:
            function: the function: it gets a ``Report``, and returns or yields ``Output``.
            settings: ``tries``, ``retry`` and ``final``, as ``PipelinePlan`` has them.
        """
        known = ("tries", "retry", "final")
        for setting in settings:
            if setting not in known:
                raise UnknownSetting("process", setting, known)
        self._settings.update(settings)

        def declare(declared: F) -> F:
            self._settings["process"] = declared
            return declared

        return declare if function is None else declare(function)

    def destination(self, name: str, transport: Transport, **settings: Any) -> None:
        """Add a destination.

        Args:
            name: its name.
            transport: how it is reached.
            settings: ``timing``, ``merge``, ``retry`` and so on, as ``PipelineDestination`` has them.
        """
        if name in self._destinations:
            raise InvalidPipeline(self.name, f"destinations.{name}", "there is a destination of this name already")
        known = PipelineDestination.__dataclass_fields__
        for setting in settings:
            if setting not in known:
                raise UnknownSetting("destination", setting, tuple(known))
        try:
            self._destinations[name] = PipelineDestination(name=name, transport=transport, **settings)
        except RedriveError as error:
            part = f"destinations.{name}.{getattr(error, 'setting', '')}".rstrip(".")
            raise InvalidPipeline(self.name, part, str(error)) from None

    @property
    def plan(self) -> PipelinePlan:
        """The pipeline as one value; it is checked as a whole."""
        if "process" not in self._settings:
            raise InvalidPipeline(self.name, "process", "there is no process function: write @pipe.process above one")
        return PipelinePlan(name=self.name, destinations=dict(self._destinations), **self._settings)
