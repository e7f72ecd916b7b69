# SPDX-License-Identifier: MIT
"""Queues in a SQLite file: embedded, with nothing to set up."""

from redrive.engines.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
