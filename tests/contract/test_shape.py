# SPDX-License-Identifier: MIT
"""The code keeps its shape: short functions, short files, honest names, pure files pure, SQL in the engines."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.house import functions, length, runtime_imports

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "src" / "redrive").rglob("*.py"))

LONGEST_FUNCTION = 40
USUAL_FUNCTION = 20
"""Nine functions in ten are no longer than this."""

DRAWERS = {"base", "common", "helpers", "manager", "misc", "utils"}
IMPURE = ("asyncio", "http", "os", "random", "secrets", "socket", "sqlite3", "subprocess", "time")
SQL = re.compile(r"\b(SELECT\s|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE (TABLE|INDEX))")


class Shape(NamedTuple):
    """What is looked at of a module; the tree itself is forgotten, for all of them together are large."""

    lines: int
    functions: list[tuple[str, int]]
    """Their names, and how long they are; several may have one name."""

    docstring: str
    imports: list[str]
    """What is imported when it runs."""

    exports: dict[str, str]
    """Of a package: the modules in which the names are defined that it exports."""

    sql: list[str]
    """The strings that are SQL."""


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def shapes() -> dict[Path, Shape]:
    """Return the shape of every module; each is parsed once."""
    return {path: shape(path) for path in MODULES}


def shape(path: Path) -> Shape:
    tree, source = parse(path), path.read_text()
    return Shape(
        lines=len(source.splitlines()),
        functions=[(found.name, length(found)) for found in functions(tree)],
        docstring=ast.get_docstring(tree) or "",
        imports=list(runtime_imports(tree)),
        exports=exports(path, tree) if path.name == "__init__.py" else {},
        sql=[text for text in strings(tree) if SQL.search(text)] if SQL.search(source) else [],
    )


def exports(path: Path, tree: ast.Module) -> dict[str, str]:
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {f"{dotted(path)}.{alias.name}": str(node.module) for node in imports for alias in node.names}


def pure() -> dict[Path, Shape]:
    return {path: found for path, found in shapes().items() if "Pure:" in found.docstring}


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")


def is_in(name: str, modules: Iterable[str]) -> bool:
    """Say whether a dotted name is one of the modules or inside one."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def strings(tree: ast.Module) -> Iterator[str]:
    """Yield the strings that a module uses: not its docstrings, which stand alone."""
    alone = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in alone:
            yield node.value


def most_lines(path: Path) -> int:
    """Return how long a file may be."""
    if path.name == "blocking.py":
        return 480  # written by a tool, a method for each of its twin
    return 700 if "engines" in path.parts else 400


def test_no_file_is_too_long():
    assert {dotted(path): each.lines for path, each in shapes().items() if each.lines > most_lines(path)} == {}


def test_no_function_is_too_long():
    all_of_them = ((dotted(path), name, size) for path, each in shapes().items() for name, size in each.functions)
    assert [found for found in all_of_them if found[2] > LONGEST_FUNCTION] == []


def test_nine_functions_in_ten_are_short():
    lengths = sorted(size for each in shapes().values() for _, size in each.functions)
    assert lengths[len(lengths) * 9 // 10] <= USUAL_FUNCTION


def test_every_module_opens_with_one_sentence_that_says_what_it_is():
    assert [dotted(path) for path, each in shapes().items() if not each.docstring] == []


@pytest.mark.parametrize("top", ["src", "tests", "bench", "examples"])
def test_no_module_is_a_drawer_for_odds_and_ends(top):
    assert [path for path in (ROOT / top).rglob("*") if path.stem.strip("_") in DRAWERS] == []


def test_a_pure_module_has_neither_clock_nor_chance_nor_io():
    imports = [(dotted(path), name) for path, each in pure().items() for name in each.imports]
    assert [found for found in imports if is_in(found[1], IMPURE)] == []


def test_a_pure_module_builds_on_pure_modules():
    known = ("redrive.errors", *(dotted(path) for path in pure()))
    homes = {
        name: home for each in shapes().values() for name, home in each.exports.items()
    }  # a door is as pure as they
    imports = [
        (dotted(path), name) for path, each in pure().items() for name in each.imports if is_in(name, ["redrive"])
    ]
    assert [found for found in imports if not is_in(found[1], known) and homes.get(found[1]) not in known] == []


def test_sql_stays_in_the_engines():
    found = {dotted(path): each.sql for path, each in shapes().items() if "engines" not in path.parts}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_documents_and_examples_import_public_paths_only():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    private = re.compile(r"^\s*(?:from|import) redrive\.\w+\.\w+.*", re.MULTILINE)
    assert [(page.name, line) for page in pages for line in private.findall(page.read_text())] == []


def test_what_only_the_type_checker_reads_is_no_import():
    source = "import a\nif TYPE_CHECKING:\n    import b\nelse:\n    import c\ndef f():\n    from d import e\n"
    assert list(runtime_imports(ast.parse(source))) == ["a", "c", "d.e"]
