# SPDX-License-Identifier: MIT
"""A topic of this broker as the source of routes: each route is a subscription of it, and no receiver runs."""

from dataclasses import dataclass
from typing import ClassVar, Never

from redrive.broker import rules
from redrive.errors import InvalidSetting, UsageError
from redrive.routes.environment import PartEnvironment
from redrive.routes.parts import EventReceiver, TextSetting, setting


@dataclass(frozen=True, slots=True)
class TopicReceiver(EventReceiver):
    """Reads a topic of this broker: what is sent to the topic is stored for each route in the same transaction."""

    kind: ClassVar[str] = "topic"

    topic: str = setting(TextSetting("must be the name of a topic"), "the topic to read")

    @property
    def address(self) -> str:
        """The topic."""
        return self.topic

    @property
    def reads(self) -> str | None:
        """The topic."""
        return self.topic

    def check(self) -> None:
        """See that delivery is durable, and that a topic can have that name."""
        if self.delivery != "durable":
            allowed = (
                "must be durable: a topic stores an event for each route when it is sent, and has no queue that could "
                "hold it; for another delivery subscribe a queue to the topic, and read it with kind = 'queue'"
            )
            raise InvalidSetting("delivery", self.delivery, allowed)
        EventReceiver.check(self)
        if self.order_key is not None:
            allowed = "cannot be combined with a topic: give its messages a session_id when you send them"
            raise InvalidSetting("order_key", self.order_key, allowed)
        rules.check_queue_name(self.topic)

    def open(self, environment: PartEnvironment) -> Never:
        """Raise an error: there is nothing to run.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"topic {self.topic!r} has no receiver to run: subscribe its routes to the topic")
