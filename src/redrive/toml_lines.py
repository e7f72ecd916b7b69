# SPDX-License-Identifier: MIT
"""Reading TOML with the line of every table, key and element, for errors that name it. Pure: text in, values out."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Place: TypeAlias = tuple[str, ...]
    """Where something is in a file: the names of the tables and the key, and the numbers of elements from 1."""


class NotToml(ValueError):
    """A text is no TOML.

    Attributes:
        line: the line at fault, counted from 1.
        problem: what is wrong there.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line = line
        self.problem = problem


def parse(text: str) -> "tuple[dict[str, Any], dict[Place, int]]":
    """Return the tables of a text, and the line of every place.

    Raises:
        NotToml: it is no TOML.
    """
    import tomllib

    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # besides its own error: numbers of 5,000 digits, 1,000 brackets
        problem, at, position = str(error).rpartition(" (at ")
        problem, position = (problem, position) if at else (position, "")
        digits = "".join(c for c in position.partition(",")[0] if c.isdigit())
        line = int(digits) if digits else text.count("\n") + 1 if position else 1
        raise NotToml(line, problem) from None
    return tables, _lines(text)


def nearest(lines: "dict[Place, int]", place: "Place") -> "tuple[int, Place]":
    """Return the line of a place, or of the nearest one around it that is known, and which one that is."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1), place


def _lines(text: str) -> "dict[Place, int]":
    """Find the line of each table, key and element. The TOML parser itself takes the headers and keys apart."""
    lines: dict[Place, int] = {}
    table: Place = ()
    elements: dict[Place, int] = {}
    within: Place = ()  # the list whose elements the lines are, if it is written over several
    quotes = ""  # those of the text that the line is in, if it is written over several
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        place: Place = ()
        start = line.lstrip()
        if quotes and quotes not in line:
            continue
        is_last = within and (start.startswith("]") or line.rstrip().endswith("]"))
        was_in_text, quotes = quotes, "" if quotes else _opened_quotes(start)
        if was_in_text or (within and not start.startswith("{")):
            within = () if is_last else within
        elif within:
            elements[within] = elements.get(within, 0) + 1
            place = (*within, str(elements[within]))
            within = () if is_last else within
        elif start.startswith("["):
            place = table = _header(line, elements) or table
        elif "=" in line:
            place = (*table, *_path(f"{line.partition('=')[0]} = 0"))
            within = place if line.rstrip().endswith("[") else ()
        for length in range(1, len(place) + 1):
            lines.setdefault(place[:length], number)
    return lines


def _opened_quotes(line: str) -> str:
    """Return the quotes of a text that begins on a line and does not end there."""
    if line.startswith("#"):
        return ""
    return next((quotes for quotes in ('"""', "'''") if line.count(quotes) % 2), "")


def _header(line: str, elements: "dict[Place, int]") -> "Place":
    """Return the place of a table; ``[[routes.filters]]`` is the next element of a list."""
    path = _path(line)
    if not line.lstrip().startswith("[["):
        return path
    elements[path] = elements.get(path, 0) + 1
    return (*path, str(elements[path]))


def _path(line: str) -> "Place":
    import tomllib

    try:
        node: object = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while isinstance(node, dict) and node:
        key, node = next(iter(node.items()))
        path.append(key)
        if isinstance(node, list):
            break
    return tuple(path)
