# SPDX-License-Identifier: MIT
"""Journeys: everything about one message in all layers, its children and parents included, as a graph."""

from redrive.journey import views
from redrive.journey.journey import Edge, Happening, Journey, Node
from redrive.journey.journeys import Journeys
from redrive.journey.times import Interval

__all__ = ["Edge", "Happening", "Interval", "Journey", "Journeys", "Node", "views"]
