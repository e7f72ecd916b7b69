# SPDX-License-Identifier: MIT
"""Writes the blocking twins of the async facades, for programs without an event loop.

The twins are never edited by hand: ``make blocking`` writes them, and a test compares them with what this would write.
"""

import ast
from pathlib import Path
from typing import NamedTuple

SRC = Path(__file__).parent.parent / "src" / "redrive"
WRITTEN_BY_HAND = {"open", "close", "messages", "release", "engine", "clock", "ledger", "stop"}


class Twin(NamedTuple):
    """A class that blocks.

    Attributes:
        head: its beginning, written by hand.
        originals: the files and classes whose public members it gets.
    """

    head: str
    originals: tuple[tuple[str, str], ...]


BROKER_HEAD = '''\
# SPDX-License-Identifier: MIT
# Written by tools/generate_blocking.py from broker.py, delivery.py and session.py. Change those and run: make blocking
"""The broker for programs without an event loop: scripts, Django, Flask. The same implementation, waited for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NoReturn, Self, Unpack

from redrive import duration
from redrive.broker.broker import Broker
from redrive.broker.bulk import Resubmitted
from redrive.broker.delivery import Delivery
from redrive.broker.effects import Effect, EffectResult, SessionLock
from redrive.broker.lifecycle import State
from redrive.broker.message import DeadLetterInfo, Headers, Lock, Message, Payload, Received
from redrive.broker.port import Capabilities, QueueInfo, TopicInfo
from redrive.broker.portal import Portal
from redrive.broker.session import Session
from redrive.broker.settings import QueueOptions, TopicOptions
from redrive.broker.topics import RuleLike
from redrive.errors import UsageError
'''

BROKER = '''

class BlockingBroker:
    """Durable queues. Made by ``redrive.connect_blocking``; use it as ``with connect_blocking(...) as broker``."""

    def __init__(self, broker: Broker) -> None:
        self._inner = broker
        self._portal = Portal()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> NoReturn:
        raise UsageError("it blocks: use it as with connect_blocking(...); in asyncio: async with connect(...)")

    async def __aexit__(self, *_: object) -> None:
        """Only there so that Python asks ``__aenter__``."""

    def open(self) -> None:
        """Connect. ``with`` does it for you; this is for programs whose beginning and end are apart, such as Flask."""
        self._portal.open()
        try:
            self._portal.run(self._inner.open())
        except BaseException:
            self._portal.close()
            raise
        self._portal.close_first(self._inner.close)

    def close(self) -> None:
        """Finish what was accepted, and disconnect; nothing if it is not open.

        Any thread may call it, and ``atexit``. What was opened on this broker is closed with it.
        """
        self._portal.close()

    @property
    def inner(self) -> Broker:
        """The broker itself, for code that runs on the portal's event loop."""
        return self._inner

    @property
    def portal(self) -> Portal:
        """The event loop that it runs on."""
        return self._portal

    def messages(self, queue: str, *, max_messages: int = 100) -> "Iterator[BlockingDelivery]":
        """Receive messages one after another until none is ready."""
        while found := self.receive(queue, max_messages=max_messages):
            yield from found
'''

DELIVERY = '''

class BlockingDelivery:
    """A message that is yours for a while. Settle it once: complete, abandon, defer or dead-letter it."""

    __slots__ = ("_inner", "_portal")

    def __init__(self, delivery: Delivery, portal: Portal) -> None:
        self._inner = delivery
        self._portal = portal

    def __repr__(self) -> str:
        return repr(self._inner)
'''

SESSION = '''

class BlockingSession:
    """The messages of one group, in order, for one consumer. Use it as ``with``; it is given back at the end."""

    __slots__ = ("_inner", "_portal")

    def __init__(self, session: Session, portal: Portal) -> None:
        self._inner = session
        self._portal = portal

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._portal.run(self._inner.__aexit__(kind, error, traceback))

    def release(self) -> None:
        """Give it back, and what you have received and not settled."""
        self._portal.run(self._inner.release())
'''

RECOVERY_HEAD = '''\
# SPDX-License-Identifier: MIT
# Written by tools/generate_blocking.py from recovery.py, bookkeeping.py, queries.py. Change those, run: make blocking
"""Recovery for programs without an event loop: scripts, Django, Flask. The same implementation, waited for."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import NoReturn, Self, Unpack

from redrive import duration
from redrive.broker import BlockingBroker
from redrive.errors import UsageError
from redrive.recovery.arrivals import SetAside
from redrive.recovery.chosen import Chosen
from redrive.recovery.dry_run import DryRun
from redrive.recovery.filter import Filter
from redrive.recovery.group_state import GroupChange, GroupState
from redrive.recovery.list_order import Order, Place
from redrive.recovery.operation import Kind, Operation
from redrive.recovery.preview import Preview
from redrive.recovery.records import (
    AuditEntry,
    CountDifference,
    FailedDetail,
    FailedMessage,
    Found,
    GroupInfo,
    LaneInfo,
    Note,
    Part,
    ServiceInfo,
)
from redrive.recovery.recovery import Recovery
from redrive.recovery.service import Step
from redrive.recovery.settings import RecoverOptions, RecoveryRequest, RequestedBy
from redrive.recovery.states import Outcome, Status
from redrive.recovery.suggestions import KindValue
from redrive.recovery.transform import Transform
from redrive.recovery.transformer import TransformSettings
'''

RECOVERY = '''

class BlockingRecovery:
    """Failed messages, and what is done about them. Made by ``redrive.open_recovery`` for a blocking broker.

    Use it as ``with open_recovery(broker) as recovery``, inside ``with connect_blocking(...) as broker``; or ``open``
    it when the broker is open. It runs on the broker's event loop, and is closed with the broker at the latest.
    """

    def __init__(self, recovery: Recovery, broker: BlockingBroker) -> None:
        self._inner = recovery
        self._portal = broker.portal

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> NoReturn:
        raise UsageError("its broker blocks, and so does it: use it as with open_recovery(...)")

    async def __aexit__(self, *_: object) -> None:
        """Only there so that Python asks ``__aenter__``."""

    def open(self) -> None:
        """Connect, and declare the queues it needs. ``with`` does it for you."""
        self._portal.run(self._inner.open())
        self._portal.close_first(self._inner.close)

    def close(self) -> None:
        """Let ``run`` come to an end, wait for it, and disconnect; nothing if it is not open."""
        self._portal.end(self._inner.close)

    def stop(self) -> None:
        """Let ``run`` come to an end in the thread that called it. A signal handler may call this."""

        async def stop() -> None:
            self._inner.stop()

        self._portal.run(stop())
'''


TWINS: dict[Path, tuple[str, tuple[Twin, ...]]] = {
    SRC / "broker" / "blocking.py": (
        BROKER_HEAD,
        (
            Twin(BROKER, (("broker/broker.py", "Broker"),)),
            Twin(DELIVERY, (("broker/delivery.py", "Delivery"),)),
            Twin(SESSION, (("broker/session.py", "Session"),)),
        ),
    ),
    SRC / "recovery" / "blocking.py": (
        RECOVERY_HEAD,
        (
            Twin(
                RECOVERY,
                (
                    ("recovery/queries.py", "Reader"),
                    ("recovery/recovery.py", "Recovery"),
                    ("recovery/bookkeeping.py", "Bookkeeper"),
                ),
            ),
        ),
    ),
}


def generate(target: Path) -> str:
    """Return the text of a file of twins."""
    head, twins = TWINS[target]
    return head + "".join(twin.head + "".join(_members(*original) for original in twin.originals) for twin in twins)


def _members(path: str, name: str) -> str:
    tree = ast.parse((SRC / path).read_text())
    (original,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    written: list[str] = []
    for member in original.body:
        if isinstance(member, ast.FunctionDef) and _is_property(member) and _is_public(member):
            written.append(_property(member))
        elif isinstance(member, ast.AsyncFunctionDef) and _is_public(member):
            written.append(_method(member))
    return "".join(written)


def _is_property(member: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in member.decorator_list)


def _is_public(member: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return not member.name.startswith("_") and member.name not in WRITTEN_BY_HAND


def _property(member: ast.FunctionDef) -> str:
    returns = ast.unparse(member.returns) if member.returns else "None"
    head = f"\n    @property\n    def {member.name}(self) -> {returns}:\n{_docstring(member)}"
    return f"{head}        return self._inner.{member.name}\n"


def _method(member: ast.AsyncFunctionDef) -> str:
    returns = ast.unparse(member.returns) if member.returns else "None"
    passed = f"self._inner.{member.name}({_arguments(member.args)})"
    call = f"self._portal.run({passed})"
    if returns.startswith("AsyncIterator["):
        returns, call = returns.removeprefix("Async"), f"self._portal.iterate({passed})"
    elif returns == "list[Delivery]":
        returns, call = '"list[BlockingDelivery]"', f"[BlockingDelivery(one, self._portal) for one in {call}]"
    elif returns == "Session | None":
        returns = '"BlockingSession | None"'
        call = f"(BlockingSession(found, self._portal) if (found := {call}) else None)"
    head = f"\n    def {member.name}({ast.unparse(member.args)}) -> {returns}:\n{_docstring(member)}"
    return head + (f"        {call}\n" if returns == "None" else f"        return {call}\n")


def _arguments(arguments: ast.arguments) -> str:
    passed = [each.arg for each in arguments.args[1:]]
    passed += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    passed += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    passed += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join(passed)


def _docstring(member: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    text = ast.get_docstring(member) or ""
    lines = [f"        {line}" if line else "" for line in text.splitlines()]
    close = '"""\n' if len(lines) == 1 else '\n        """\n'
    return f'        """{chr(10).join(lines).strip()}{close}'


if __name__ == "__main__":
    for target in TWINS:
        target.write_text(generate(target))
