# SPDX-License-Identifier: MIT
"""Live updates: which topics have changed, for every stream, without data.

One watcher reads one row a second, whatever the number of streams, and the process's own telemetry events are hints
that make it quicker. What waits for a stream is a set of topics of limited size, so that a slow client costs no more
than a quick one, and misses nothing: a topic that waits already need not wait twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from redrive.access.store import LastChanges
from redrive.background import KeepGoing
from redrive.clock import Clock, pause
from redrive.errors import TooManyStreams
from redrive.recovery import MessageFailed, MessageRecovered, MessageSetAside, OperationChanged, OperationHalted
from redrive.telemetry import Event

_logger = logging.getLogger("redrive.server")

EVERYTHING: Final = "everything"
"""The topic that stands for all others: too much has changed to name it, or it is not known what."""

_MOST_TOPICS: Final = 256
_MOST_STREAMS: Final = 10_000
_LOOK_EVERY_S: Final = 1.0
_OF_NUMBERS: Final = {
    "failures": ("failed", "operations"),
    "audit": ("audit", "operations"),
    "routes": ("routes",),
    "pipelines": ("pipelines",),
}


def topics_of(event: Event) -> tuple[str, ...]:
    """Return the topics that an event of this process is a hint for. Pure."""
    match event:
        case MessageFailed(queue=queue) | MessageSetAside(queue=queue):
            return "failed", f"queue:{queue}"
        case MessageRecovered(operation=number):
            return "failed", f"operation:{number}"
        case OperationChanged(operation=number) | OperationHalted(operation=number):
            return "operations", f"operation:{number}"
        case _:
            return _of_layer(event)


def _of_layer(event: Event) -> tuple[str, ...]:
    if event.layer == "redrive.routes" and (route := getattr(event, "route", None)) is not None:
        return "routes", f"route:{route}"
    if event.layer == "redrive.pipeline" and (pipeline := getattr(event, "pipeline", None)) is not None:
        return "pipelines", f"pipeline:{pipeline}"
    return ()


def changed_topics(before: LastChanges | None, after: LastChanges) -> tuple[str, ...]:
    """Return the topics whose numbers have changed, and those that change without one. Pure."""
    if before is None:
        return ()
    changed = [name for name in _OF_NUMBERS if getattr(before, name) != getattr(after, name)]
    topics = [topic for name in changed for topic in _OF_NUMBERS[name]]
    return tuple(dict.fromkeys((*topics, "operations") if after.is_sending else topics))


class TopicStream:
    """What waits for one client.

    Args:
        wanted: says whether the client may hear of a topic.
    """

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self._wanted = wanted
        self._waiting: set[str] = set()
        self._woken = asyncio.Event()
        self.is_over = False

    def tell(self, topics: Iterable[str]) -> None:
        """Let topics wait for the client."""
        self._waiting.update(topic for topic in topics if self._wanted(topic))
        if len(self._waiting) > _MOST_TOPICS:
            self._waiting = {EVERYTHING}
        if self._waiting:
            self._woken.set()

    def end(self) -> None:
        """Let the stream come to an end."""
        self.is_over = True
        self._woken.set()

    async def next(self, clock: Clock, patience: float) -> list[str]:
        """Return the topics that wait; none if there are none within that time, or the stream is over."""
        try:
            async with clock.timeout(patience):
                await self._woken.wait()
        except TimeoutError:
            return []
        topics, self._waiting = sorted(self._waiting), set()
        if not self.is_over:
            self._woken.clear()
        return topics

    async def rest(self, clock: Clock, seconds: float) -> None:
        """Wait, so that what changes soon after goes together; not if the stream is over."""
        if not self.is_over:
            await pause(clock, seconds)


class TopicHub:
    """Tells every stream what has changed.

    Args:
        clock: what waiting goes by.
        most: how many streams there may be.
    """

    def __init__(self, clock: Clock, most: int = _MOST_STREAMS) -> None:
        self._clock = clock
        self._most = most
        self._streams: set[TopicStream] = set()
        self._is_over = False

    @property
    def streams(self) -> int:
        """How many streams there are."""
        return len(self._streams)

    def open(self, wanted: Callable[[str], bool]) -> TopicStream:
        """Return a new stream; ``close`` it at its end.

        Raises:
            TooManyStreams: there are as many as there may be.
        """
        if len(self._streams) >= self._most:
            raise TooManyStreams(self._most)
        stream = TopicStream(wanted)
        if self._is_over:
            stream.end()
        self._streams.add(stream)
        return stream

    def close(self, stream: TopicStream) -> None:
        """Forget a stream."""
        self._streams.discard(stream)

    def tell(self, *topics: str) -> None:
        """Tell every stream that topics have changed."""
        if topics:
            for stream in self._streams:
                stream.tell(topics)

    def hint(self, event: Event) -> None:
        """Take an event of this process as a hint."""
        self.tell(*topics_of(event))

    def end(self) -> None:
        """Let all streams come to an end, also those that are opened from now on."""
        self._is_over = True
        for stream in self._streams:
            stream.end()

    async def watch(self, look: Callable[[], Awaitable[LastChanges]]) -> None:
        """Look once a second what has changed, while there are streams; until cancelled.

        Args:
            look: reads the row.
        """
        before: LastChanges | None = None
        keep_going = KeepGoing(_logger, "reading what has changed failed")
        while True:
            if self._streams:
                with keep_going:
                    after = await look()
                    # what has changed before the first look, or since the last that succeeded, is not known
                    is_new = keep_going.has_failed or before is None
                    self.tell(*((EVERYTHING,) if is_new else changed_topics(before, after)))
                    before = after
            await pause(self._clock, _LOOK_EVERY_S)
