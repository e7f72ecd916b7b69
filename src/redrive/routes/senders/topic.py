# SPDX-License-Identifier: MIT
"""A sender to a topic of this broker."""

from dataclasses import dataclass
from typing import ClassVar

from redrive.broker import Message, Send, rules
from redrive.routes.environment import PartEnvironment
from redrive.routes.parts import BrokerSender, DurationSetting, OpenSender, TextSetting, setting
from redrive.routes.senders.broker_sender import OpenBrokerSender, send_effect


@dataclass(frozen=True, slots=True)
class TopicSender(BrokerSender):
    """Sends events to a topic of this broker, with the key of the delivery as message id."""

    kind: ClassVar[str] = "topic"

    topic: str = setting(TextSetting("must be the name of a topic"), "the topic to send to")
    delay: float | None = setting(DurationSetting(), "how long until an event can be received; None: at once", None)

    @property
    def destination(self) -> str:
        """The topic."""
        return f"topic {self.topic}"

    @property
    def writes(self) -> str | None:
        """The topic."""
        return self.topic

    def check(self) -> None:
        """See that a topic can have that name."""
        rules.check_queue_name(self.topic)

    def effect(self, message: Message, key: str, now: float | None = None) -> Send:
        """Return what delivers an event; with a delay, ``now`` is when it begins, in seconds since 1970."""
        return send_effect(self.topic, message, key, self.delay, now)

    def open(self, environment: PartEnvironment) -> OpenSender:
        """Return the sender at work."""
        return OpenBrokerSender(self.effect, environment)
