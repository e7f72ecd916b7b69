# SPDX-License-Identifier: MIT
"""Pauses an operation that cannot be worked on, with the reason, so that it does not hold up other operations."""

from pathlib import Path

from redrive.recovery.environment import Hopeless, Tools
from redrive.recovery.events import OperationHalted
from redrive.recovery.records import Lease
from redrive.recovery.states import OperationEvent

_LONGEST = 1_000


async def halt(tools: Tools, lease: Lease, operation: int, error: Exception) -> None:
    """Pause an operation because of an error that another attempt does not repair.

    Raises:
        Exception: the error itself, if the operation is not under way and so cannot be paused.
    """
    reason = reason_of(error)
    if not await tools.ledger.advance(lease, operation, OperationEvent.HALT, reason):
        raise error
    tools.report(OperationHalted(operation, reason))


def reason_of(error: Exception) -> str:
    """Return for people why an operation cannot be worked on, and what to do about it."""
    if isinstance(error, Hopeless):
        return str(error)[:_LONGEST]
    said = f"{type(error).__name__}: {error}"[:_LONGEST]
    return f"it cannot be worked on: {said} ({_place(error)}); repair that and resume it, or cancel it"


def _place(error: Exception) -> str:
    """Return where an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "at an unknown place"
    code = trace.tb_frame.f_code
    return f"{Path(code.co_filename).name}:{trace.tb_lineno}, in {code.co_name}"
