# SPDX-License-Identifier: MIT
"""Queues in PostgreSQL, shared by any number of processes on any number of machines."""

from redrive.engines.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
