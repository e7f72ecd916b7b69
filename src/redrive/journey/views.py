# SPDX-License-Identifier: MIT
"""A journey as JSON values, as commands and the HTTP API show it. Pure: no I/O, no clock."""

from datetime import UTC, datetime
from typing import Any

from redrive.journey.journey import Journey, Node


def journey(found: Journey) -> dict[str, Any]:
    """Return a journey as JSON values."""
    return {
        "id": found.id,
        "state": found.state,
        "begin": _at(found.begin),
        "end": _at(found.end),
        "seconds": found.end - found.begin,
        "times": dict(found.times),
        "nodes": [_node(node) for node in found.nodes],
        "edges": [{"source": edge.source, "target": edge.target, "kind": edge.kind} for edge in found.edges],
        "parts": [
            {"kind": part.kind, "begin": _at(part.begin), "end": _at(part.end), "node": part.node or None}
            for part in found.parts
        ],
        "notes": list(found.notes),
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "kind": node.kind,
        "layer": node.layer,
        "title": node.title,
        "message_id": node.message_id,
        "state": node.state,
        "begin": _at(node.begin),
        "end": None if node.end is None else _at(node.end),
        "happenings": [{"at": _at(each.at), "event": each.event, "said": each.said} for each in node.happenings],
    }


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
