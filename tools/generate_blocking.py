# SPDX-License-Identifier: MIT
"""Writes src/redrive/broker/blocking.py, the twin of the async facade for programs without an event loop.

The twin is never edited by hand: ``make blocking`` writes it, and a test compares it with what this would write.
"""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "redrive" / "broker"
TARGET = PACKAGE / "blocking.py"
TWINS = {"Broker": "broker.py", "Delivery": "delivery.py", "Session": "session.py"}
WRITTEN_BY_HAND = {"open", "close", "messages", "release", "engine", "clock"}

HEAD = '''\
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
from redrive.broker.port import Capabilities, QueueInfo
from redrive.broker.portal import Portal
from redrive.broker.session import Session
from redrive.broker.settings import QueueOptions
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

    def close(self) -> None:
        """Finish what was accepted, and disconnect; nothing if it is not open. It may be called by ``atexit``."""
        if self._portal.is_open:
            try:
                self._portal.run(self._inner.close())
            finally:
                self._portal.close()

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
    """The messages of one group, in order, to nobody else. Use it as ``with``; it is given back at the end."""

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


def generate() -> str:
    """Return the text of the twin."""
    heads = {"Broker": BROKER, "Delivery": DELIVERY, "Session": SESSION}
    return HEAD + "".join(heads[name] + _members(name) for name in TWINS)


def _members(name: str) -> str:
    tree = ast.parse((PACKAGE / TWINS[name]).read_text())
    (original,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    written = []
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
    call = f"self._portal.run(self._inner.{member.name}({_arguments(member.args)}))"
    if returns == "list[Delivery]":
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
    TARGET.write_text(generate())
