# SPDX-License-Identifier: MIT
"""Reading YAML with the line of every key and element, for errors that name it. Pure: text in, values out."""

from typing import TYPE_CHECKING, Any

from redrive.printable import one_line

if TYPE_CHECKING:
    from redrive.toml_lines import Place

_TEXT = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_DEEPEST = 50
_MOST_PLACES = 100_000


class NotYaml(ValueError):
    """A text is no YAML, or none that can be used.

    Attributes:
        line: the line at fault, counted from 1.
        problem: what is wrong there.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line = line
        self.problem = problem


def parse(text: str) -> "tuple[Any, dict[Place, int]]":
    """Return what a text says, and the line of every place.

    Raises:
        NotYaml: it is no YAML, a key is no text or is written twice, or what is in it has no end.
        ModuleNotFoundError: the package that reads YAML is not installed.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - as its base
            try:
                return super().construct_object(node, deep)
            except (yaml.YAMLError, NotYaml):
                raise
            except Exception as error:  # noqa: BLE001 - whatever int() and the like make of a text that is none
                raise NotYaml(_line(node), f"{node.value!r} cannot be read: {error}") from None

    lines: dict[Place, int] = {}
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        if node is None:
            return {}, lines
        _note(node, (), lines)
        return loader.construct_document(node), lines
    except yaml.YAMLError as error:
        raise NotYaml(_line_of(error, text), one_line(getattr(error, "problem", None) or str(error), 300)) from None
    except RecursionError:
        raise NotYaml(1, "it is too deep") from None


def _note(node: Any, place: "Place", lines: "dict[Place, int]") -> None:  # noqa: ANN401 - yaml has no types for it
    """Note the line of each node and of what is in it; an alias is where it was first written."""
    if len(place) > _DEEPEST:
        raise NotYaml(_line(node), f"something is within itself, or more than {_DEEPEST} deep")
    if len(lines) > _MOST_PLACES:
        raise NotYaml(_line(node), f"it is too large: more than {_MOST_PLACES:,} keys and elements")
    lines[place] = _line(node)
    if node.id == "mapping":
        _note_keys(node, place, lines)
    elif node.id == "sequence":
        for number, value in enumerate(node.value, start=1):
            _note(value, (*place, str(number)), lines)


def _note_keys(node: Any, place: "Place", lines: "dict[Place, int]") -> None:  # noqa: ANN401 - as above
    seen: dict[str, int] = {}
    for key, value in node.value:
        if key.tag == _MERGE:
            continue
        if key.tag != _TEXT:
            shown = key.value if key.id == "scalar" else "here"
            raise NotYaml(_line(key), f"the key {shown} must be a text: put it in quotes")
        if key.value in seen:
            problem = f"{key.value!r} is written twice, first in line {seen[key.value]}; rename or remove one"
            raise NotYaml(_line(key), problem)
        seen[key.value] = _line(key)
        _note(value, (*place, key.value), lines)
        lines[*place, key.value] = _line(key)


def _line(node: Any) -> int:  # noqa: ANN401 - as above
    return int(node.start_mark.line) + 1


def _line_of(error: Exception, text: str) -> int:
    """Return the line of an error; one about a character says only where in the text it is."""
    mark, position = getattr(error, "problem_mark", None), getattr(error, "position", None)
    if mark is not None:
        return int(mark.line) + 1
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else 1
