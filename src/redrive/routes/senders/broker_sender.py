# SPDX-License-Identifier: MIT
"""What the senders to queues and topics of this broker share."""

from collections.abc import Callable
from dataclasses import replace

from redrive.broker import Message, Send
from redrive.clock import utc
from redrive.errors import MessageError, QueueNotFound, SessionRequired, Unavailable, UsageError
from redrive.routes.environment import PartEnvironment
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected, SendOutcome
from redrive.worker.confirmation import unbound


def send_effect(target: str, message: Message, key: str, delay: float | None, now: float | None) -> Send:
    """Return what sends an event to a queue or a topic.

    Its id is the key, so that a queue with duplicate detection drops what it has. It is a new message: headers about
    the redeliveries and the recovery of the one that the event came with are left out.

    Args:
        target: the queue or topic.
        message: the event.
        key: names the delivery.
        delay: the seconds until the message becomes available; None: at once.
        now: the time, in seconds since 1970, for the delay.
    """
    if delay is not None and now is None:
        raise UsageError("a sender with a delay needs the time: effect(message, key, now)")
    at = None if delay is None or now is None else utc(now + delay)
    return Send(target, replace(message, id=key, headers=unbound(message.headers)), at)


class OpenBrokerSender:
    """A sender to this broker at work, for routes whose legs are not stored.

    Args:
        effect: returns what delivers an event, given the event, its key and the time.
        environment: what it works with.
    """

    def __init__(self, effect: Callable[[Message, str, float], Send], environment: PartEnvironment) -> None:
        self._effect = effect
        self._environment = environment

    async def send(self, message: Message, key: str) -> SendOutcome:
        """Send an event to its queue or topic."""
        try:
            effect = self._effect(message, key, self._environment.clock.time())
            await self._environment.broker.apply(effect)
        except (MessageError, SessionRequired) as error:
            return Rejected(str(error))
        except (Unavailable, QueueNotFound) as error:  # no message can be sent there
            return DestinationDown(str(error))
        return Delivered()

    async def close(self) -> None:
        """Do nothing: the broker belongs to the program."""
