# SPDX-License-Identifier: MIT
"""What the driver's objects are called here."""

from typing import Any, TypeAlias

Connection: TypeAlias = Any
"""A connection of asyncpg, or the stand-in for one that its pool lends."""

Row: TypeAlias = Any
"""A row of an answer: its columns by position and by name."""
