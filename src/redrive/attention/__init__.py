# SPDX-License-Identifier: MIT
"""What needs a person, first, in sentences; and how things stand, in a few numbers.

Rules look at facts of all layers. They are pure: each returns a sentence and the thing it is about.
"""

from redrive.attention import views
from redrive.attention.attention import Attention
from redrive.attention.facts import Facts, GroupFact, PipelineFact, QueueFact, RouteFact
from redrive.attention.figures import Figures
from redrive.attention.rules import AttentionItem, Thresholds, items_of

__all__ = [
    "Attention",
    "AttentionItem",
    "Facts",
    "Figures",
    "GroupFact",
    "PipelineFact",
    "QueueFact",
    "RouteFact",
    "Thresholds",
    "items_of",
    "views",
]
