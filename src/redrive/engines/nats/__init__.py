# SPDX-License-Identifier: MIT
"""Queues in NATS JetStream, for programs that need a cluster which loses nothing when a node dies."""

from redrive.engines.nats.engine import NatsEngine

__all__ = ["NatsEngine"]
