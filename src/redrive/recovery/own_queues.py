# SPDX-License-Identifier: MIT
"""Recovery's own queues: staged copies, confirmations, hints.

No message in them may stay unseen. They take messages of any size, deliver as often as a queue can, and each reader of
such a queue reads its dead letters too.
"""

from dataclasses import replace
from typing import Final

from redrive.broker import Engine, QueueSettings

PAGE_BYTES: Final = 16 * 1_048_576
"""How many bytes of messages are read at a time, unless one alone is larger."""

_MOST_DELIVERIES = 2_000
_LARGEST_MESSAGE = 100 * 1_048_576


async def declare_own(engine: Engine, name: str, lock_duration: float) -> bool:
    """Declare one of recovery's own queues with the right settings; False if it existed already.

    Args:
        engine: where the queues are.
        name: the queue.
        lock_duration: seconds for which a message stays locked when a process dies with it.
    """
    wanted = QueueSettings(
        lock_duration=lock_duration, max_delivery_count=_MOST_DELIVERIES, max_message_bytes=_LARGEST_MESSAGE
    )
    if await engine.declare(name, wanted):
        return True
    found = (await engine.inspect(name))[0].settings
    needed = replace(found, max_delivery_count=_MOST_DELIVERIES, max_message_bytes=_LARGEST_MESSAGE, default_ttl=None)
    if found != needed:  # it was declared by an earlier version, or by hand
        await engine.update(name, needed)
    return False
