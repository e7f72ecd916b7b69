# SPDX-License-Identifier: MIT
"""Layer 2: **redeliver** a message whose handler failed.

Peek-lock queues: a received message is locked, not gone. Settle it, or it is delivered again.
"""

from redrive.broker.blocking import BlockingBroker, BlockingDelivery, BlockingSession
from redrive.broker.broker import Broker, Payload
from redrive.broker.bulk import Resubmitted, Stayed
from redrive.broker.delivery import Delivery
from redrive.broker.engine import (
    Abandon,
    Cancel,
    Capabilities,
    Complete,
    DeadLetter,
    Defer,
    Effect,
    Engine,
    QueueInfo,
    QueueSettings,
    Send,
    SessionLock,
    SetSessionState,
    Upkeep,
)
from redrive.broker.lifecycle import State, dead_letter_queue
from redrive.broker.message import DeadLetterInfo, Lock, Message, Received
from redrive.broker.session import Session

__all__ = [
    "Abandon",
    "BlockingBroker",
    "BlockingDelivery",
    "BlockingSession",
    "Broker",
    "Cancel",
    "Capabilities",
    "Complete",
    "DeadLetter",
    "DeadLetterInfo",
    "Defer",
    "Delivery",
    "Effect",
    "Engine",
    "Lock",
    "Message",
    "Payload",
    "QueueInfo",
    "QueueSettings",
    "Received",
    "Resubmitted",
    "Send",
    "Session",
    "SessionLock",
    "SetSessionState",
    "State",
    "Stayed",
    "Upkeep",
    "dead_letter_queue",
]
