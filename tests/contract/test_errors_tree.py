# SPDX-License-Identifier: MIT
"""The family tree drawn at the top of redrive.errors is the real one."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import redrive
from redrive import errors


def drawn_tree(docstring: str) -> dict[str, str]:
    """Return child → parent for an indented list of ``Name  - what it means``, whatever draws the branches."""
    tree: dict[str, str] = {}
    ancestors: list[tuple[int, str]] = []
    for line in docstring.splitlines():
        found = re.match(r"([\s│├└─]*)([A-Z]\w*)\s*(?:[-—].*)?$", line)
        if not found:
            continue
        indent, name = len(found[1]), found[2]
        while ancestors and ancestors[-1][0] >= indent:
            ancestors.pop()
        if ancestors:
            tree[name] = ancestors[-1][1]
        ancestors.append((indent, name))
    return tree


def real_tree(base: type[Exception]) -> Iterator[tuple[str, str]]:
    for child in base.__subclasses__():
        if child.__module__.startswith("redrive"):
            yield child.__name__, base.__name__
            yield from real_tree(child)


def test_the_drawn_tree_is_the_real_tree():
    for module in pkgutil.walk_packages(redrive.__path__, "redrive."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)  # so that no class is missed because its module was not imported
    assert drawn_tree(errors.__doc__) == dict(real_tree(errors.RedriveError))


def test_every_error_lives_in_errors():
    for name, _ in real_tree(errors.RedriveError):
        assert getattr(errors, name).__module__ == errors.__name__


def test_a_drawing_is_read_by_its_indentation():
    drawn = "Prose comes first.\n\nA    - base\n  B  - one\n    C\n  D\n"
    assert drawn_tree(drawn) == {"B": "A", "C": "B", "D": "A"}
    assert drawn_tree("A\n├── B — one\n│   └── C\n└── D") == {"B": "A", "C": "B", "D": "A"}
