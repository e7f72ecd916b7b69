# SPDX-License-Identifier: MIT
"""Which subject holds what. Pure: no I/O, no clock.

One stream holds everything of a namespace, one message for each subject::

    <namespace>.c.<name>                                   what a queue or a topic is: its settings and its key
    <namespace>.q.<key>.<n>.<e or f>.<expires>.<of>        a message to be received: the queue's consumer reads these
    <namespace>.s.<key>.<n>.<e or f>.<expires>.<of>        a message for later: the server moves it to ``q`` in time
    <namespace>.d.<key>.<n>.<e or f>.<expires>.<of>        a message set aside, to be received by its number
    <namespace>.x.<key>.<n>.<e or f>.<expires>.<of>        a dead letter, whatever it is doing
    <namespace>.l.<key>.<version>                          that the lock on a version of a message was taken over
    <namespace>.i.<key>.<digest>                           an id that was seen
    <namespace>.u.<key>                                    when a queue was last used
    <namespace>.o.<key>                                    how many messages no subscription of a topic got
    <namespace>.b.<id>                                     the receipt of a batch
    <namespace>.n.<node>                                   which engines are open: their numbers differ by this

A queue that is deleted and declared anew has another key, so nothing of the old one can get into it. That a message
expires, and when, stands in its subject: so those that have expired are found without reading any other.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import Final

from redrive.errors import InvalidSetting

_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]")


class MessageLane(StrEnum):
    """What the messages of a subject have in common."""

    READY = "q"
    SCHEDULED = "s"
    ASIDE = "d"
    DEAD = "x"


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """Where a message is.

    Attributes:
        lane: what it is doing.
        key: its queue's.
        number: its own.
        expires: the second after which it has expired; 0: never.
        of: the number that its sender was given, if it was sent to a topic; 0 otherwise.
    """

    lane: MessageLane
    key: str
    number: int
    expires: int = 0
    of: int = 0

    def moved(self, lane: MessageLane) -> "MessagePlace":
        """Return the place of the same message in another lane; a dead letter does not expire."""
        return replace(self, lane=lane, expires=0 if lane is MessageLane.DEAD else self.expires)


class Subjects:
    """The subjects of a namespace.

    Args:
        namespace: its name, which is that of the stream too.
    """

    def __init__(self, namespace: str) -> None:
        if not _NAMESPACE.fullmatch(namespace):
            allowed = "must be 1 to 64 letters, digits, '_' and '-': it names a stream"
            raise InvalidSetting("namespace", namespace, allowed)
        self.stream = namespace
        self.everything = f"{namespace}.>"
        self.definitions = f"{namespace}.c.*"
        self.messages = f"{namespace}.*.*.*.*.*.*"
        self._hints = f"{namespace}_hint"

    def definition(self, name: str) -> str:
        """Where it is said what a queue or a topic is."""
        return f"{self.stream}.c.{escaped(name)}"

    def message(self, place: MessagePlace) -> str:
        """The subject of a message."""
        kind = "e" if place.expires else "f"
        return f"{self.stream}.{place.lane}.{place.key}.{place.number}.{kind}.{place.expires}.{place.of}"

    def place(self, subject: str) -> MessagePlace:
        """Return what the subject of a message says."""
        lane, key, number, _, expires, of = subject.split(".")[1:]
        return MessagePlace(MessageLane(lane), key, int(number), int(expires), int(of))

    def ready_key(self, subject: str) -> str | None:
        """Return the key of the queue in which a message of this subject is ready; None if it is none of these."""
        lane, _, rest = subject.removeprefix(f"{self.stream}.").partition(".")
        return rest.partition(".")[0] if lane == MessageLane.READY else None

    def lane(self, lane: MessageLane, key: str) -> str:
        """All messages in one lane of a queue."""
        return f"{self.stream}.{lane}.{key}.>"

    def lanes(self, key: str) -> str:
        """All messages of a queue, in every lane."""
        return f"{self.stream}.*.{key}.*.*.*.*"

    def expiring(self, lane: MessageLane, key: str) -> str:
        """The messages in one lane of a queue that expire at some time."""
        return f"{self.stream}.{lane}.{key}.*.e.>"

    def numbered(self, lane: MessageLane, key: str, number: int) -> str:
        """The message of a number."""
        return f"{self.stream}.{lane}.{key}.{number}.>"

    def legs(self, key: str, of: int) -> str:
        """The scheduled message that a subscription got of one that was sent to its topic."""
        return f"{self.stream}.{MessageLane.SCHEDULED}.{key}.*.*.*.{of}"

    def seen(self, key: str, message_id: str) -> str:
        """Where it is noted that an id was seen."""
        return f"{self.stream}.i.{key}.{sha256(message_id.encode()).hexdigest()[:32]}"

    def takeover(self, key: str, sequence: int) -> str:
        """Where it is noted that the lock on a message, of which this is the version, was taken over."""
        return f"{self.stream}.l.{key}.{sequence}"

    def used(self, key: str) -> str:
        """Where it is noted when a queue was used."""
        return f"{self.stream}.u.{key}"

    def unmatched(self, key: str) -> str:
        """Where the messages are counted that no subscription got."""
        return f"{self.stream}.o.{key}"

    def receipt(self, commit: str) -> str:
        """Where it is noted that a batch was stored."""
        return f"{self.stream}.b.{commit}"

    def node(self, number: int) -> str:
        """Where an engine says that it has a number."""
        return f"{self.stream}.n.{number}"

    def belongings(self, key: str) -> tuple[str, ...]:
        """All that goes with a queue when it is deleted."""
        lanes = "".join(MessageLane)
        return (*(f"{self.stream}.{kind}.{key}.>" for kind in f"{lanes}il"), self.used(key), self.unmatched(key))

    def hint(self, key: str) -> str:
        """What wakes those who wait for a queue. It is stored nowhere."""
        return f"{self._hints}.{key}"


def escaped(name: str) -> str:
    """Return a name as one word of a subject: ``orders/eu`` is ``orders=2Feu``."""
    return "".join(sign if _PLAIN.fullmatch(sign) else f"={ord(sign):02X}" for sign in name)
