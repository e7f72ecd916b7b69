# SPDX-License-Identifier: MIT
"""Changes that are not the ledger's own, such as of queues and routes, written to its audit trail."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from redrive.errors import MessageError, UsageError

if TYPE_CHECKING:
    from redrive.recovery.bookkeeping import Bookkeeper

T = TypeVar("T")


async def audited(
    recovery: "Bookkeeper",
    action: str,
    subject: str,
    call: Callable[[], Awaitable[T]],
    *,
    actor: str = "",
    reason: str = "",
) -> T:
    """Change something, and write to the audit trail that it has begun, and what came of it.

    An entry is written before the change, so that there is none without an entry. An entry that says *begun*, and none
    after it, means that it is not known what came of it.

    Args:
        recovery: whose trail it is.
        action: what is done: ``queues.delete``.
        subject: what it is about: ``queue:orders``.
        call: does it.
        actor: who does it.
        reason: why.
    """
    await recovery.audit(action, subject, actor=actor, reason=reason, outcome="begun")
    try:
        result = await call()
    except (UsageError, MessageError) as error:
        await recovery.audit(action, subject, actor=actor, reason=reason, outcome=f"refused: {error}")
        raise
    await recovery.audit(action, subject, actor=actor, reason=reason, outcome="done")
    return result
