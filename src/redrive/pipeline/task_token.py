# SPDX-License-Identifier: MIT
"""What the message for a task carries. Pure: no I/O, no clock, no randomness."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from redrive.broker import Headers, Message

_quoted: Final = json.encoder.encode_basestring_ascii
_USUAL_TOKEN: Final = re.compile(rb'{"task":"([0-9a-f]+)","epoch":([0-9]{1,9}),"retries":([0-9]{1,9}),"items":\[\]}')


@dataclass(frozen=True, slots=True)
class TaskToken:
    """What the message for a task carries; one that does not fit its task is out of date, and is dropped.

    Attributes:
        task: the task's id.
        epoch: how often a person has changed the course of the task.
        retries: how often sending was tried again.
        items: the shipments that are still to be sent, counted from 1; empty: all.
    """

    task: str
    epoch: int = 0
    retries: int = 0
    items: tuple[int, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {"task": self.task, "epoch": self.epoch, "retries": self.retries, "items": list(self.items)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TaskToken":
        """Return what a message carries."""
        items = tuple([int(each) for each in value.get("items", ())])
        return cls(str(value["task"]), int(value.get("epoch", 0)), int(value.get("retries", 0)), items)

    @classmethod
    def from_bytes(cls, body: bytes) -> "TaskToken":
        """Return what a message with this body carries; nearly every one is written just as ``to_bytes`` does it.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: it carries none.
        """
        usual = _USUAL_TOKEN.fullmatch(body)
        if usual is None:
            return cls.from_json(json.loads(body))
        task, epoch, retries = usual.groups()
        return cls(task.decode(), int(epoch), int(retries))

    def to_bytes(self) -> bytes:
        """Return the body of its message: its JSON values, written here, as an encoder takes five times as long."""
        items = ",".join(map(str, self.items)) if self.items else ""
        text = f'{{"task":{_quoted(self.task)},"epoch":{self.epoch},"retries":{self.retries},"items":[{items}]}}'
        return text.encode()


def message_for(token: TaskToken, id: str | None = None, headers: Headers | None = None) -> Message:  # noqa: A002
    """Return the message that carries a token.

    Args:
        token: the token.
        id: the message's id; None: it gets one when it is sent.
        headers: its headers.
    """
    body = token.to_bytes()  # that it is JSON need not be stored with each
    if id is not None and not headers:
        return Message.plain(body, id)
    return Message(body, id=id, headers={} if headers is None else headers)
