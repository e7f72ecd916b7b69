# SPDX-License-Identifier: MIT
"""Queues and failed messages behind a server: what a command does through the HTTP API instead of the database."""

from redrive.remote.broker import RemoteBroker
from redrive.remote.connection import TOKEN_VARIABLE, ServerConnection, is_server
from redrive.remote.recovery import RemoteRecovery

__all__ = ["TOKEN_VARIABLE", "RemoteBroker", "RemoteRecovery", "ServerConnection", "is_server"]
