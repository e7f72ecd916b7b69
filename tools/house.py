# SPDX-License-Identifier: MIT
"""Counts what the code is measured by: sizes of packages and functions, imports, duplicate names, words to avoid.

``make house`` prints the counts; ``make house LIST=1`` also names every import of another package's private module.
``tests/contract/test_house.py`` holds the targets.
"""

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

SRC = Path(__file__).parents[1] / "src"
SPLIT = "redrive.engines"
"""A package whose own packages are counted one by one."""

AVOIDED_WORD = re.compile(r"(?<![a-z])told(?![a-z])", re.IGNORECASE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    """A statement that imports a module of the product.

    Attributes:
        line: its line.
        target: the dotted name of the imported module.
        runs: whether it runs: not only a type checker reads it.
    """

    line: int
    target: str
    runs: bool


def functions(tree: ast.AST) -> Iterator[Function]:
    """Yield every function and method."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        if not isinstance(node, ast.expr):  # expressions are most of a tree, and have no statements in them
            yield from functions(node)


def length(function: Function) -> int:
    """Return the function's lines, from ``def``, without its docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        lines -= (function.body[0].end_lineno or 0) - function.body[0].lineno + 1
    return lines


def import_statements(tree: ast.AST, *, runs: bool = True) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield import statements, each with whether it runs: not those under ``if TYPE_CHECKING:``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, runs
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from import_statements(ast.Module(node.body, []), runs=False)
            yield from import_statements(ast.Module(node.orelse, []), runs=runs)
        elif not isinstance(node, ast.expr):
            yield from import_statements(node, runs=runs)


def runtime_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the full names that a module imports when it runs: not those under ``if TYPE_CHECKING:``."""
    for node, runs in import_statements(tree):
        if runs and isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif runs and isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@dataclass(frozen=True)
class Module:
    """One file of the product.

    Attributes:
        path: where it is, from the folder above the source folder.
        name: its dotted name; a package's is that of its ``__init__.py``.
        text: its source.
    """

    path: Path
    name: str
    text: str = field(repr=False)

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed source."""
        return ast.parse(self.text, str(self.path))

    @cached_property
    def package(self) -> str:
        """The package it is counted in: ``redrive.broker``, ``redrive.engines.sqlite``; else its own name."""
        parts = self.name.split(".")
        folders = parts if self.path.name == "__init__.py" else parts[:-1]
        depth = 3 if self.name.startswith(f"{SPLIT}.") else 2
        return ".".join(folders[:depth]) if len(folders) > 1 else self.name

    @cached_property
    def lengths(self) -> list[int]:
        """The lengths of its functions."""
        return [length(found) for found in functions(self.tree)]

    @cached_property
    def exported(self) -> list[str] | None:
        """The names that ``__all__`` lists; None: there is no such list."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return list(ast.literal_eval(node.value))
        return None

    @property
    def exports(self) -> int | None:
        """How many names ``__all__`` lists; None: there is no such list."""
        return None if self.exported is None else len(self.exported)


@dataclass
class House:
    """All files of the product.

    Attributes:
        modules: by dotted name.
    """

    modules: Mapping[str, Module] = field(repr=False)

    @classmethod
    def at(cls, src: Path) -> "House":
        """Read every file under a source folder."""
        found: dict[str, Module] = {}
        for path in sorted(src.rglob("*.py")):
            name = ".".join(path.relative_to(src).with_suffix("").parts).removesuffix(".__init__")
            found[name] = Module(path.relative_to(src.parent), name, path.read_text())
        return cls(found)

    def imports(self, module: Module) -> Iterator[Import]:
        """Yield what a module imports of the product, one for each module that a statement names."""
        for node, runs in import_statements(module.tree):
            for target in sorted({name for name in self._targets(node) if name in self.modules}):
                yield Import(node.lineno, target, runs)

    def _targets(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            return
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            yield full if full in self.modules else str(node.module)

    def packages(self) -> dict[str, list[Module]]:
        """Return the modules of each package; a file at the top is one of its own."""
        found: dict[str, list[Module]] = defaultdict(list)
        for module in self.modules.values():
            found[module.package].append(module)
        return found

    def neighbours(self) -> dict[str, set[str]]:
        """Return the other packages that each package imports when it runs."""
        found: dict[str, set[str]] = defaultdict(set)
        for module in self.modules.values():
            targets = {self.modules[one.target].package for one in self.imports(module) if one.runs}
            found[module.package] |= targets - {module.package, "redrive"}
        return found

    def private_imports(self) -> list[str]:
        """Return every statement that imports a private module of another package.

        A private module has a dotted name of three parts, and its package does not list it in ``__all__``. A port is
        not private to engines: they implement it.
        """
        found: list[str] = []
        for module in self.modules.values():
            for one in self.imports(module):
                there = one.target.split(".")
                is_inside = len(there) > 2 and there[:2] != module.name.split(".")[:2]
                is_port = there[-1] == "port" and module.name.startswith(SPLIT)
                if is_inside and not is_port and not self._is_exported(one.target):
                    found.append(f"{module.path}:{one.line}: {one.target}")
        return found

    def _is_exported(self, name: str) -> bool:
        """Say whether a module is a public name of its package."""
        package, _, last = name.rpartition(".")
        return last in (self.modules[package].exported or ())

    def cycles(self, *, typing: bool = False) -> list[list[str]]:
        """Return the groups of modules that import one another; with typing, counting imports that never run."""
        graph = {
            name: {one.target for one in self.imports(module) if one.runs or typing}
            for name, module in self.modules.items()
        }
        return knots(graph)

    def duplicate_classes(self) -> dict[str, list[str]]:
        """Return the class names that more than one module defines, with those modules.

        Files of the same name in two engines play the same role, so their classes may have the same name. A private
        class is known in its own file only.
        """
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for module in self.modules.values():
            role = re.sub(rf"^{SPLIT}\.\w+\.", f"{SPLIT}.*.", module.name)
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name][role] = module.name
        return {name: [*where.values()] for name, where in sorted(found.items()) if len(where) > 1}

    def avoided_word(self) -> list[str]:
        """Return where the word to avoid occurs."""
        return [
            f"{module.path}:{number}: {line.strip()}"
            for module in self.modules.values()
            for number, line in enumerate(module.text.splitlines(), 1)
            for _ in AVOIDED_WORD.finditer(line)
        ]


def knots(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach one another: the strongly connected ones, of two or more."""
    reach = {node: _reachable(graph, node) for node in graph}
    groups = {
        frozenset(other for other in reach[node] if node in reach[other]) for node in graph if node in reach[node]
    }
    return sorted(sorted(group) for group in groups if len(group) > 1)


def _reachable(graph: Mapping[str, Iterable[str]], start: str) -> set[str]:
    seen: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        node = ahead.pop()
        if node not in seen:
            seen.add(node)
            ahead += graph[node]
    return seen


def percentile(values: Sequence[int], share: float) -> int:
    """Return the value that a share of the values does not exceed; 0 if there are none."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] if values else 0


def row(name: str, modules: Sequence[Module], neighbours: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Return a line of the table of packages."""
    lengths = [one for module in modules for one in module.lengths]
    lines = sum(len(module.text.splitlines()) for module in modules)
    exports = next((module.exports for module in modules if module.name == name), None)
    shape = "/".join(str(percentile(lengths, share)) for share in (0.5, 0.9, 1.0))
    met = f"{sum(name in others for others in neighbours.values())}/{len(neighbours.get(name, ()))}"
    return (name.removeprefix("redrive."), str(len(modules)), f"{lines:,}", shape, str(exports or "-"), met)


def table(house: House) -> list[tuple[str, ...]]:
    """Return the table of packages, its head and its sum included."""
    neighbours = house.neighbours()
    packages = house.packages()
    deep = {name: found for name, found in packages.items() if found[0].path.name == "__init__.py"}
    flat = [module for name, found in packages.items() if name not in deep for module in found]
    deep["redrive"] = [*deep.pop("redrive", []), *flat]
    rows = [row(name, found, neighbours) for name, found in sorted(deep.items())]
    head = ("package", "files", "lines", "fn med/p90/max", "__all__", "in/out")
    total = row("all", list(house.modules.values()), {})
    return [head, *rows, (*total[:4], "", "")]


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows with their columns under one another, figures to the right."""
    widths = [max(len(line[column]) for line in rows) for column in range(len(rows[0]))]
    for name, *figures in rows:
        print(f"  {name:<{widths[0]}}", *(f"{one:>{width}}" for one, width in zip(figures, widths[1:], strict=True)))


def print_house(house: House, *, lists: bool) -> None:
    """Print all counts, and with lists what each of them counts."""
    print_table(table(house))
    print()
    findings = {
        "import cycles (target 0)": [" -> ".join(group) for group in house.cycles()],
        "import cycles of types only": [" -> ".join(group) for group in house.cycles(typing=True)],
        "imports of another package's private module (target 10)": house.private_imports(),
        "'told' in src (target 0)": house.avoided_word(),
        "class names defined twice (target 0)": [
            f"{name}: {', '.join(where)}" for name, where in house.duplicate_classes().items()
        ],
    }
    for title, found in findings.items():
        print(f"  {len(found):>4} {title}")
        if lists or title.startswith("class names"):
            print(*(f"         {line}" for line in found), sep="\n", end="\n" if found else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Count what the code is measured by.")
    parser.add_argument("--list", action="store_true", help="also list what is counted")
    parser.add_argument("--src", type=Path, default=SRC, help="the source folder to count")
    options = parser.parse_args()
    print_house(House.at(options.src), lists=options.list)
