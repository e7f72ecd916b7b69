# SPDX-License-Identifier: MIT
"""A sender to a queue of this broker."""

from dataclasses import dataclass
from typing import ClassVar

from redrive.broker import Message, Send, rules
from redrive.routes.environment import PartEnvironment
from redrive.routes.parts import BrokerSender, DurationSetting, OpenSender, TextSetting, setting
from redrive.routes.senders.broker_sender import OpenBrokerSender, send_effect


@dataclass(frozen=True, slots=True)
class QueueSender(BrokerSender):
    """Sends events to a queue of this broker, with the key of the delivery as message id."""

    kind: ClassVar[str] = "queue"

    queue: str = setting(TextSetting("must be the name of a queue"), "the queue to send to")
    delay: float | None = setting(DurationSetting(), "how long until an event can be received; None: at once", None)

    @property
    def destination(self) -> str:
        """The queue."""
        return f"queue {self.queue}"

    @property
    def writes(self) -> str | None:
        """The queue."""
        return self.queue

    def check(self) -> None:
        """See that a queue can have that name."""
        rules.check_queue_name(self.queue)

    def effect(self, message: Message, key: str, now: float | None = None) -> Send:
        """Return what delivers an event; with a delay, ``now`` is when it begins, in seconds since 1970."""
        return send_effect(self.queue, message, key, self.delay, now)

    def open(self, environment: PartEnvironment) -> OpenSender:
        """Return the sender at work."""
        return OpenBrokerSender(self.effect, environment)
