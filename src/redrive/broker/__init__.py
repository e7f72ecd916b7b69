# SPDX-License-Identifier: MIT
"""Layer 2: **redeliver** a message whose handler failed.

Peek-lock queues: a received message is locked, not gone. Settle it, or it is delivered again.
"""

from redrive.broker import headers, parents, port, rules, spans, tallies, topics, views
from redrive.broker.blocking import BlockingBroker, BlockingDelivery, BlockingSession
from redrive.broker.broker import Broker
from redrive.broker.bulk import Resubmitted, Stayed
from redrive.broker.decode import decoder
from redrive.broker.delivery import Delivery, random_id
from redrive.broker.effects import (
    Abandon,
    Cancel,
    Complete,
    DeadLetter,
    Defer,
    Effect,
    EffectResult,
    Send,
    SessionLock,
    SetSessionState,
)
from redrive.broker.event_tallies import counted, counting_calls
from redrive.broker.lifecycle import State
from redrive.broker.message import DeadLetterInfo, Headers, HeaderValue, Lock, Message, Payload, Received
from redrive.broker.port import Capabilities, Engine, QueueInfo
from redrive.broker.rules import dead_letter_queue, is_own_queue, source_queue
from redrive.broker.session import Session
from redrive.broker.settings import (
    DurationSetting,
    FlagSetting,
    JourneySetting,
    QueueOptions,
    QueueSettings,
    TopicOptions,
    TopicSettings,
    WholeSetting,
)
from redrive.broker.topics import Rule, RuleLike, SubscriptionInfo, TopicInfo, subscription_queue

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
    "DurationSetting",
    "Effect",
    "EffectResult",
    "Engine",
    "FlagSetting",
    "HeaderValue",
    "Headers",
    "JourneySetting",
    "Lock",
    "Message",
    "Payload",
    "QueueInfo",
    "QueueOptions",
    "QueueSettings",
    "Received",
    "Resubmitted",
    "Rule",
    "RuleLike",
    "Send",
    "Session",
    "SessionLock",
    "SetSessionState",
    "State",
    "Stayed",
    "SubscriptionInfo",
    "TopicInfo",
    "TopicOptions",
    "TopicSettings",
    "WholeSetting",
    "counted",
    "counting_calls",
    "dead_letter_queue",
    "decoder",
    "headers",
    "is_own_queue",
    "parents",
    "port",
    "random_id",
    "rules",
    "source_queue",
    "spans",
    "subscription_queue",
    "tallies",
    "topics",
    "views",
]
