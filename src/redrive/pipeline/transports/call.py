# SPDX-License-Identifier: MIT
# ruff: noqa: RUF009 - the function called for each field returns dataclasses.field
"""A transport that is a function of the program."""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from redrive.broker import FlagSetting
from redrive.errors import InvalidSetting
from redrive.parts import FunctionSetting, ListSetting, Table, load_function, setting
from redrive.pipeline.shipment import (
    DestinationAway,
    OutcomeUnknown,
    ProbeOutcome,
    Shipment,
    ShipmentDelayed,
    ShipmentOutcome,
    ShipmentRefused,
    ShipmentSent,
)
from redrive.pipeline.transport import OpenTransport, Transport, TransportEnvironment
from redrive.printable import one_line

_LONGEST_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class CallableSetting:
    """A function, which is kept, or its name."""

    def checked(self, name: str, value: object) -> object:
        """Return it."""
        return value if callable(value) else FunctionSetting().checked(name, value)


@dataclass(frozen=True, slots=True)
class ErrorTypeSetting:
    """A class of exceptions, kept as its name: ``package.module:Error``, or ``ValueError`` for one of Python's own."""

    def checked(self, name: str, value: object) -> str:
        """Return its name."""
        if isinstance(value, type) and issubclass(value, Exception):
            return f"{value.__module__}:{value.__qualname__}".removeprefix("builtins:")
        if not isinstance(value, str) or not value:
            raise InvalidSetting(name, value, "must be a class of exceptions, or its name as 'package.module:Error'")
        return FunctionSetting().checked(name, value) if ":" in value else self._built_in(name, value)

    def _built_in(self, name: str, value: str) -> str:
        error_type(name, value)
        return value


def error_type(name: str, value: str) -> type[Exception]:
    """Return the class of exceptions that a setting names.

    Raises:
        InvalidSetting: there is none.
    """
    found = load_function(name, value if ":" in value else f"builtins:{value}")
    if not isinstance(found, type) or not issubclass(found, Exception):
        raise InvalidSetting(name, value, "must be a class of exceptions")
    return found


@dataclass(frozen=True, slots=True)
class CallTransport(Transport):
    """Calls a function of the program with each ``Shipment``: async, or blocking, which then runs in a thread.

    It returns None when the destination has the shipment, a text that the destination gave as receipt, or an outcome,
    such as ``OutcomeUnknown``. An exception means ``ShipmentDelayed``: the destination does not have it. One whose type
    is in ``final`` means ``ShipmentRefused``. ``probe`` is a function that returns True if the destination has a
    shipment, False if not, or an outcome.
    """

    kind: ClassVar[str] = "call"

    function: Callable[[Shipment], Any] | str = setting(CallableSetting(), "the function, or package.module:function")
    final: tuple[str, ...] = setting(
        ListSetting(ErrorTypeSetting()), "classes of exceptions that mean that no further try would succeed", ()
    )
    deduplicates: bool = setting(  # pyright: ignore[reportIncompatibleMethodOverride] - a setting is read as a property
        FlagSetting(), "whether a second call with the same delivery_id has no second effect", default=False
    )
    probe: Callable[[Shipment], Any] | str | None = setting(
        CallableSetting(), "a function that looks whether the destination has a shipment", None
    )

    @property
    def address(self) -> str:
        """The function."""
        return f"call {_name(self.function)}"

    @property
    def can_probe(self) -> bool:
        """Whether there is a function that looks."""
        return self.probe is not None

    def ready(self) -> None:
        """See that the functions and the exceptions can be imported in this process."""
        for name, value in (("function", self.function), ("probe", self.probe)):
            if isinstance(value, str):
                load_function(name, value)
        for each in self.final:
            error_type("final", each)

    def to_table(self) -> Table:
        """Return it as files write it: functions as their names."""
        table = Transport.to_table(self)
        return table | {name: _name(table[name]) for name in ("function", "probe") if name in table}

    def open(self, environment: TransportEnvironment) -> OpenTransport:
        """Return the transport at work.

        Raises:
            InvalidSetting: a function or a class of exceptions cannot be imported here.
        """
        self.ready()
        return _OpenCallTransport(self)


def _name(function: Callable[..., Any] | str) -> str:
    if isinstance(function, str):
        return function
    return f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', type(function).__qualname__)}"


def _loaded(name: str, function: Callable[..., Any] | str) -> Callable[..., Any]:
    return load_function(name, function) if isinstance(function, str) else function


class _OpenCallTransport:
    """A function that is called."""

    def __init__(self, settings: CallTransport) -> None:
        self._name = _name(settings.function)
        self._function = _loaded("function", settings.function)
        self._probe = None if settings.probe is None else _loaded("probe", settings.probe)
        self._final = tuple(error_type("final", each) for each in settings.final)

    async def send(self, shipment: Shipment) -> ShipmentOutcome:
        try:
            result = await _result(self._function, shipment)
        except self._final as error:
            return ShipmentRefused(_said(error))
        except Exception as error:  # noqa: BLE001 - what a function of the program may raise
            return ShipmentDelayed(_said(error))
        if result is None or isinstance(result, str):
            return ShipmentSent(result or "")
        if isinstance(result, ShipmentSent | ShipmentDelayed | ShipmentRefused | DestinationAway | OutcomeUnknown):
            return result
        returned = f"{self._name} returned {type(result).__name__}; it may return None, a text or an outcome"
        return OutcomeUnknown(returned)  # it did return, so it may have sent

    async def probe(self, shipment: Shipment) -> ProbeOutcome:
        if self._probe is None:
            return OutcomeUnknown("there is no function that looks")
        try:
            result = await _result(self._probe, shipment)
        except Exception as error:  # noqa: BLE001 - as above
            return OutcomeUnknown(_said(error))
        if isinstance(result, ShipmentSent | ShipmentDelayed | OutcomeUnknown):
            return result
        if isinstance(result, bool):
            return ShipmentSent() if result else ShipmentDelayed("the destination does not have it")
        return OutcomeUnknown(f"probe returned {type(result).__name__}; it may return True, False or an outcome")

    async def close(self) -> None:
        return


async def _result(function: Callable[..., Any], shipment: Shipment) -> Any:  # noqa: ANN401 - what a function returns
    if inspect.iscoroutinefunction(function):
        return await function(shipment)
    result = await asyncio.to_thread(function, shipment)
    return await result if inspect.isawaitable(result) else result  # of a function that makes a coroutine


def _said(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}", _LONGEST_REASON)
