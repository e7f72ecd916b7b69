# SPDX-License-Identifier: MIT
"""What needs a person, as JSON. Pure: no I/O, no clock."""

from dataclasses import asdict
from typing import Any, TypeAlias

from redrive.attention.figures import Figures
from redrive.attention.rules import AttentionItem

View: TypeAlias = dict[str, Any]

__all__ = ["figures_view", "item_view"]


def item_view(item: AttentionItem) -> View:
    """Return something that needs a person."""
    return {**asdict(item), "since": item.since and item.since.isoformat()}


def figures_view(figures: Figures) -> View:
    """Return the figures of an overview."""
    return {**asdict(figures), "oldest_at": figures.oldest_at and figures.oldest_at.isoformat()}
