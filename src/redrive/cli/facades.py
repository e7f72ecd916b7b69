# SPDX-License-Identifier: MIT
"""The facades that commands use: of a database, or of a server if that is what was given."""

from typing import cast

import redrive
from redrive.attention import Attention
from redrive.broker import Broker
from redrive.errors import InvalidSetting
from redrive.history import History
from redrive.journey import Journeys
from redrive.remote import RemoteAttention, RemoteBroker, RemoteHistory, RemoteJourneys


def open_history(broker: Broker) -> History:
    """Return the history of a broker, to be entered with ``async with``."""
    if isinstance(broker, RemoteBroker):
        return cast("History", RemoteHistory(broker))  # it refuses what it does not have
    return redrive.open_history(broker)


def open_attention(broker: Broker, store: str | None = None) -> Attention:
    """Return what says what needs a person, to be entered with ``async with``."""
    if isinstance(broker, RemoteBroker):
        if store is not None:
            raise InvalidSetting("store", store, "must be left out with a server, which has its own")
        return cast("Attention", RemoteAttention(broker))
    return redrive.open_attention(broker, store)


def open_journeys(broker: Broker) -> Journeys:
    """Return the journeys of a broker's messages, to be entered with ``async with``."""
    if isinstance(broker, RemoteBroker):
        return cast("Journeys", RemoteJourneys(broker))
    return redrive.open_journeys(broker)
