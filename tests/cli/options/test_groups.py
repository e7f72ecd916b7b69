# SPDX-License-Identifier: MIT
"""A command takes a group of options as one value."""

import inspect
from dataclasses import dataclass
from typing import Annotated

import typer

from redrive.cli.options.groups import grouped


@dataclass(frozen=True)
class Place:
    url: Annotated[str, typer.Option(help="Where.")] = "here"
    names: Annotated[list[str] | None, typer.Option("--name")] = None


class Sizes:
    """A group whose options are made by a function."""

    def __init__(self, **given):
        self.given = given

    @classmethod
    def parameters(cls):
        option = Annotated[int | None, typer.Option()]
        return [inspect.Parameter("width", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)]


def test_the_options_of_groups_stand_in_place_of_the_groups(capsys):
    seen = []
    app = typer.Typer()

    @app.command()
    @grouped
    def command(word: str, place: Place, sizes: Sizes, *, fast: bool = False) -> None:
        """Do it."""
        seen.append((word, place, sizes.given, fast))

    whole = typer.main.get_command(app)
    whole.main(["x", "--name", "a", "--name", "b", "--width", "3", "--fast"], standalone_mode=False)
    whole.main(["y", "--url", "there"], standalone_mode=False)
    assert seen == [
        ("x", Place("here", ["a", "b"]), {"width": 3}, True),
        ("y", Place("there", None), {"width": None}, False),
    ]
    whole.main(["--help"], standalone_mode=False)
    help_text = capsys.readouterr().out
    assert all(text in help_text for text in ("Do it.", "--url", "--name", "--width", "--fast", "Where."))
