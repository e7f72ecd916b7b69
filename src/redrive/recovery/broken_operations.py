# SPDX-License-Identifier: MIT
"""What happens to an operation that cannot be worked on: it is paused, with the reason, and nothing else is held up."""

from pathlib import Path

from redrive.recovery.environment import Hopeless, Tools
from redrive.recovery.events import OperationHalted
from redrive.recovery.records import Lease
from redrive.recovery.states import OperationEvent

_LONGEST = 1_000


async def halt(tools: Tools, lease: Lease, operation: int, error: Exception) -> None:
    """Pause an operation because of an error that trying again does not mend.

    Raises:
        Exception: the error, if the operation is not under way, so that pausing it would change nothing.
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
    return f"it cannot be worked on: {said} ({_place(error)}); when that is mended resume it, or cancel it"


def _place(error: Exception) -> str:
    """Return where an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "nobody knows where"
    code = trace.tb_frame.f_code
    return f"{Path(code.co_filename).name}:{trace.tb_lineno}, in {code.co_name}"
