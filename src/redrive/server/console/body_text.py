# SPDX-License-Identifier: MIT
"""Bodies and tracebacks as a page shows them: JSON in colours, own frames apart from those of libraries. Pure: no I/O.

Templates call these with what is shown already, so that what is hidden stays hidden.
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any, Final

from redrive.broker.views import View

MOST_SHOWN: Final = 262_144
"""So many characters of a body are shown; the rest can be downloaded."""

_FRAME: Final = re.compile(r'  File "(?P<file>[^"\n]*)", line (?P<line>\d+)(?:, in (?P<name>[^\n]*))?')
_LIBRARY: Final = re.compile(
    r"(?:site|dist)-packages/(?P<package>[\w.-]+)|/lib/python[\d.]+/(?!site-|dist-)(?P<module>[\w.-]+)|<frozen "
)
_TOKEN: Final = re.compile(
    r'(?P<k2>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<k3>"(?:[^"\\]|\\.)*")|(?P<k1>\b(?:true|false|null)\b)'
)
_BYTES_SHOWN: Final = 4_096


def body_of(message: Mapping[str, Any]) -> View:
    """Return a body as parts of text, each with the class of its colour, and what is worth saying about it.

    Args:
        message: the view of a message.
    """
    if message["body_encoding"] != "utf-8":
        data = base64.b64decode(message["body"])
        shown = "\n".join(_hex_line(data, at) for at in range(0, min(len(data), _BYTES_SHOWN), 16))
        return {"parts": [("", shown)], "size": len(data), "is_cut": len(data) > _BYTES_SHOWN, "kind": "bytes"}
    text: str = message["body"]
    pretty, kind = _pretty(text)
    shown = pretty[:MOST_SHOWN]
    parts = coloured(shown) if kind == "JSON" else [("", shown)]
    return {
        "parts": parts,
        "size": len(text.encode(errors="replace")),
        "is_cut": len(pretty) > MOST_SHOWN,
        "kind": kind,
    }


def _pretty(text: str) -> tuple[str, str]:
    if len(text) > MOST_SHOWN:
        return text, "text"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text, "text"
    if not isinstance(found, dict | list):
        return text, "text"
    return json.dumps(found, indent=2, ensure_ascii=False), "JSON"


def _hex_line(data: bytes, at: int) -> str:
    row = data[at : at + 16]
    letters = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
    return f"{at:08x}  {row.hex(' '):<47}  {letters}"


def coloured(text: str) -> list[tuple[str, str]]:
    """Return JSON as parts, each with the class of its colour."""
    parts: list[tuple[str, str]] = []
    at = 0
    for found in _TOKEN.finditer(text):
        if found.start() > at:
            parts.append(("", text[at : found.start()]))
        parts.append((str(found.lastgroup), found[0]))
        at = found.end()
    parts.append(("", text[at:]))
    return parts


def frames_of(trace: str) -> View:
    """Return the frames of a traceback of Python, those of libraries folded, and how it ends.

    What is not read as a traceback is in ``rest``, whole.
    """
    starts = list(_FRAME.finditer(trace))
    if not starts:
        return {"blocks": [], "end": "", "rest": trace}
    frames = [
        _frame(found, trace[found.end() : starts[i + 1].start() if i + 1 < len(starts) else len(trace)])
        for i, found in enumerate(starts)
    ]
    end = frames[-1].pop("after")
    blocks: list[View] = []
    for each in frames:
        each.pop("after", None)
        if each["is_own"]:
            blocks.append({"frames": [each], "is_own": True, "packages": []})
        elif blocks and not blocks[-1]["is_own"]:
            blocks[-1]["frames"].append(each)
        else:
            blocks.append({"frames": [each], "is_own": False, "packages": []})
    for block in blocks:
        block["packages"] = list(dict.fromkeys(each["package"] for each in block["frames"] if each["package"]))
    return {"blocks": blocks, "end": end, "rest": ""}


def _frame(found: re.Match[str], below: str) -> View:
    lines = below.splitlines()
    source = [line for line in lines if line.startswith("    ") and not set(line.strip()) <= {"~", "^"}]
    after = [line for line in lines if line.strip() and not line.startswith("  ")]
    library = _LIBRARY.search(found["file"])
    package = (library["package"] or library["module"] or "Python") if library is not None else ""
    return {
        "file": found["file"],
        "line": int(found["line"]),
        "name": found["name"] or "",
        "source": "\n".join(line.removeprefix("    ") for line in source),
        "is_own": library is None,
        "package": package.removesuffix(".py"),
        "after": "\n".join(after),
    }


_COMPARED: Final = (
    ("exception_type", "Exception"),
    ("exception_message", "What it said"),
    ("source", "Where in the code"),
    ("host", "Host"),
    ("worker", "Worker"),
    ("tries", "Attempts"),
    ("reason", "Given up because"),
    ("queue", "Queue"),
)


def changes_since(attempts: Sequence[Mapping[str, Any]], place: int) -> list[View]:
    """Return what differs between a failure and the one before it.

    Args:
        attempts: the failures, the last one first.
        place: which of them.
    """
    if place + 1 >= len(attempts):
        return []
    now, before = attempts[place], attempts[place + 1]
    return [
        {"what": what, "before": before.get(name), "now": now.get(name)}
        for name, what in _COMPARED
        if before.get(name) != now.get(name)
    ]


def diff_lines(before: str, after: str) -> list[str]:
    """Return the difference between two texts, line by line, without its head."""
    old, new = _pretty(before)[0].splitlines(), _pretty(after)[0].splitlines()
    return list(unified_diff(old, new, lineterm="", n=2))[2:]
