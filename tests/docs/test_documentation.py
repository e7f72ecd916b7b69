# SPDX-License-Identifier: MIT
"""The documentation is run: every Python block, every ``redrive`` command, every policy file, every example.

How a page says what to do with a block, in the words after its opening fence:

- ``python`` runs alone, in an empty directory; a ``text`` block right after it is exactly what it prints.
- ``sh`` holds ``redrive`` commands that succeed; a ``text`` block right after it is what they print, 80 columns wide.
- ``python continues`` and ``sh continues`` go on where the block before stopped, with the same names and files.
- ``python postgres`` has an empty PostgreSQL database, and so have those that continue it: ``DATABASE_URL`` says where.
  An example that reads that variable has one too.
- ``python pytest`` holds tests, and pytest runs them.
- ``sh no-run`` is for other commands, such as ``pip install``.
- ``python no-run`` is for code that needs what the development environment lacks; ``NOT_RUN`` says why, page by page.
- ``toml`` and ``xml`` that define policies are loaded; so are ``toml`` and ``yaml`` that define routes, and
  ``toml`` that defines a pipeline, with functions that do nothing.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from types import ModuleType
from typing import NamedTuple

import pytest

from redrive.pipeline import parse_pipeline
from redrive.retry import Policies
from redrive.routes.route_file import parse_toml, parse_yaml
from redrive.testing import no_sleep
from tests.commands import run_command
from tests.docs.pages import FENCE, PAGES, ROOT, Block, blocks
from tests.postgres.fixtures import names

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

STEPS = {"python", "python postgres", "python continues", "sh", "sh continues"}
TESTS = "python pytest"
RUN = STEPS | {TESTS, "toml", "xml", "yaml"}
SHOWN = {"text", "sh no-run", "python no-run", "sql", "ini", "json", "mermaid", "dockerfile", "nginx", "caddy"}
NOT_RUN = {
    "web-applications.md": "Django would be 50 MB more to install; its code was tried by hand on PostgreSQL",
    "see-what-happens.md": "a process can set its provider of spans once; tests/broker/test_spans.py does the same",
}
DATABASE = "DATABASE_URL"

WITHOUT_SLEEPING = """
import runpy, sys
from redrive.testing import no_sleep
with no_sleep():
    runpy.run_path(sys.argv[1], run_name="__main__")
"""


class Step(NamedTuple):
    """A block that is run and, if the page shows it, what it prints."""

    block: Block
    prints: str | None

    def run(self, namespace: dict[str, object], capsys) -> str:
        """Run the block; return what it printed."""
        if self.block.info.startswith("sh"):
            return "".join(ran_command(self.block, command) for command in commands(self.block))
        source = "\n" * self.block.line + self.block.text  # so that tracebacks point into the page
        with no_sleep():
            exec(compile(source, self.block.page, "exec"), namespace)  # noqa: S102 - our own pages
        return capsys.readouterr().out


def ran_command(block: Block, command: str) -> str:
    """Run a ``redrive`` command in the current directory; return what it printed."""
    program, *arguments = shlex.split(command, comments=True)
    assert program == "redrive", f"{block}: only redrive commands are run; mark the block `sh no-run`"
    ran = run_command(*arguments, env={"COLUMNS": "80"})
    assert ran.exit_code == 0, f"{command}\n{ran.output}"
    return ran.stdout


def unpadded(text: str) -> list[str]:
    """Return the lines without the blanks at their ends, which nobody sees."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def stories(found: list[Block]) -> Iterator[list[Step]]:
    """Group blocks that are run with those that continue them: a story shares its names and its directory."""
    story: list[Step] = []
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.info not in STEPS:
            continue
        if story and (not block.info.endswith("continues") or block.page != story[-1].block.page):
            yield story
            story = []
        shown = after is not None and after.info == "text" and after.follows
        story.append(Step(block, after.text if shown else None))
    if story:
        yield story


def commands(block: Block) -> list[str]:
    """Return the command lines of a ``sh`` block, without prompts, comments and line continuations."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.strip() and not line.startswith("#")]


def defines_policies(block: Block) -> bool:
    mark = {"toml": "[policies", "xml": "RetryPolicyConfiguration"}.get(block.info)
    return mark is not None and mark in block.text


def defines_routes(block: Block) -> bool:
    mark = {"toml": "[routes.", "yaml": "routes:\n"}.get(block.info)
    return mark is not None and mark in block.text


def defines_pipeline(block: Block) -> bool:
    return block.info == "toml" and "[pipeline]" in block.text


BLOCKS = [block for page in PAGES for block in blocks(page, page.read_text())]


@pytest.fixture
def database(postgres, monkeypatch):
    """An empty PostgreSQL database; ``DATABASE_URL`` says where."""
    name = next(names)
    monkeypatch.setenv(DATABASE, postgres.create_database(name))
    yield
    postgres.drop_database(name)


@pytest.mark.parametrize("story", list(stories(BLOCKS)), ids=lambda story: str(story[0].block))
def test_a_page_runs_and_prints_what_it_says(story, tmp_path, monkeypatch, capsys, request):
    monkeypatch.chdir(tmp_path)
    if story[0].block.info == "python postgres":
        request.getfixturevalue("database")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for step in story:
        printed = step.run(namespace, capsys)
        if step.prints is not None:
            assert unpadded(printed) == unpadded(step.prints), str(step.block)


def pages_with_several_stories() -> list[list[list[Step]]]:
    """Return the pages whose pieces a reader may try one after another, though they need not."""
    found: dict[object, list[list[Step]]] = {}
    for story in stories(BLOCKS):
        found.setdefault(story[0].block.page, []).append(story)
    return [page for page in found.values() if len(page) > 1]


@pytest.mark.parametrize(
    "page", pages_with_several_stories(), ids=lambda page: str(page[0][0].block.page.relative_to(ROOT))
)
def test_a_page_can_be_read_with_one_session_and_one_folder(page, tmp_path, monkeypatch, capsys, request):
    """Who types everything on a page into one session, in one folder, sees what the page says, too."""
    monkeypatch.chdir(tmp_path)
    if any(story[0].block.info == "python postgres" for story in page):
        request.getfixturevalue("database")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for step in (step for story in page for step in story):
        printed = step.run(namespace, capsys)
        if step.prints is not None:
            assert unpadded(printed) == unpadded(step.prints), str(step.block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_whose_pieces_go_on_from_one_another_says_so(page):
    """The word after the fence is invisible to a reader."""
    continues = any(block.page == page and block.info == "python continues" for block in BLOCKS)
    assert not continues or "one Python session" in " ".join(page.read_text().split())


@pytest.mark.parametrize(
    "page", sorted({block.page for block in BLOCKS if block.info == TESTS}), ids=lambda page: page.name
)
def test_tests_on_a_page_pass(page, tmp_path):
    found = [block for block in BLOCKS if block.page == page and block.info == TESTS]
    for block in found:
        (tmp_path / f"test_line_{block.line}.py").write_text(block.text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", tmp_path]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(found)} passed" in ran.stdout, "each block holds one test"


@pytest.mark.parametrize("block", [block for block in BLOCKS if defines_policies(block)], ids=str)
def test_policy_files_load(block):
    Policies.parse(block.text, format=block.info)


@pytest.mark.parametrize("block", [block for block in BLOCKS if defines_routes(block)], ids=str)
def test_route_files_load(block):
    assert (parse_toml if block.info == "toml" else parse_yaml)(block.text)


@pytest.mark.parametrize("block", [block for block in BLOCKS if defines_pipeline(block)], ids=str)
def test_pipeline_files_load(block, monkeypatch):
    for module, function in re.findall(r'"([a-z_.]+):([a-z_]+)"', block.text):
        for name in accumulate(module.split("."), "{}.{}".format):
            monkeypatch.setitem(sys.modules, name, sys.modules.get(name) or ModuleType(name))
        monkeypatch.setattr(sys.modules[module], function, print, raising=False)
    assert parse_pipeline(block.text).destinations


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_succeed(example, tmp_path, request):
    if DATABASE in example.read_text():
        request.getfixturevalue("database")
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_SLEEPING, example], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_says_what_it_is(block):
    """A misspelt word after the fence would quietly switch the block's test off."""
    assert block.info in RUN | SHOWN


def test_code_that_is_not_run_has_a_reason():
    assert {block.page.name for block in BLOCKS if block.info == "python no-run"} == set(NOT_RUN)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.info == "python"], ids=str)
def test_a_block_that_needs_a_database_says_so(block):
    assert DATABASE not in block.text, "mark the block `python postgres`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    prose = FENCE.sub("", page.read_text())
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose)
    assert [target for target in targets if "://" not in target and not (page.parent / target).exists()] == []


def test_every_page_is_listed():
    start = ROOT / "docs" / "README.md"
    listed = {(start.parent / target).resolve() for target in re.findall(r"\]\(([^)#\s]+\.md)\)", start.read_text())}
    pages = {page for page in PAGES if page.is_relative_to(start.parent) and page != start}
    missing = [str(page.relative_to(ROOT)) for page in pages - listed if page.parent.name != "decisions"]
    assert sorted(missing) == []


PAGE = """# Title

```python
x = 1
```

```python continues
print(x)
```

```text
1
```

Prose.

```text
2
```
"""


def test_blocks_are_found_with_their_line_and_their_output():
    first, second, text, loose = found = list(blocks(ROOT / "page.md", PAGE))
    assert [str(block) for block in found] == ["page.md:3", "page.md:7", "page.md:11", "page.md:17"]
    assert text.follows
    assert not loose.follows
    assert list(stories(found)) == [[Step(first, None), Step(second, "1\n")]]
