# SPDX-License-Identifier: MIT
"""How messages are sent: an option for each setting of a recovery, made of the fields of ``RecoverySettings``.

Three settings are no single word on a command line, and are spelled here: a canary, a redirect and the beginning. What
is changed about messages has options of its own, in ``transform.py``.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from datetime import datetime
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from redrive.cli.exit_status import ExitStatus
from redrive.cli.options.connection import complete_queue
from redrive.cli.options.time import instant, seconds
from redrive.cli.output import console
from redrive.errors import RedriveError
from redrive.recovery import Canary, RecoverySettings, Transform

_PANEL = "How they are sent"


class RecoveryOptions:
    """The settings of a recovery that were stated on the command line."""

    def __init__(self, **given: Any) -> None:
        self._given = given

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """Return the options, as a command takes them."""
        hints = get_type_hints(RecoverySettings)
        return [
            parameter
            for each in fields(RecoverySettings)
            for parameter in (
                _SPELLED[each.name].options if each.name in _SPELLED else [_plain(each, hints[each.name])]
            )
        ]

    @property
    def limit(self) -> int | None:
        """How many messages at most."""
        limit: int | None = self._given["limit"]
        return limit

    def how(self, transform: Transform | None) -> dict[str, Any]:
        """Return the arguments of ``Recovery.recover`` that say how messages are recovered."""
        stated = {
            each.name: _SPELLED[each.name].read(self._given) if each.name in _SPELLED else self._given[each.name]
            for each in fields(RecoverySettings)
        }
        return {**stated, "transform": transform}


def _parameter(name: str, kind: Any, option: Any, default: object = None) -> inspect.Parameter:  # noqa: ANN401 - as typer has them
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _plain(setting: "Field[Any]", kind: Any) -> inspect.Parameter:  # noqa: ANN401 - the type of a field
    """Return the option of a setting that is a number, a text or a flag."""
    text = f"{setting.metadata['help'][0].upper()}{setting.metadata['help'][1:]}."
    if kind is bool:
        option = typer.Option(f"--{setting.name.replace('_', '-')}", help=text, rich_help_panel=_PANEL)
        return _parameter(setting.name, bool, option, default=False)
    metavar = "TEXT" if kind == str | None else "N"
    return _parameter(setting.name, kind, typer.Option(metavar=metavar, help=text, rich_help_panel=_PANEL))


# --- settings that are spelled in another way


class _Spelling(NamedTuple):
    """The options of a setting, and what reads it from their values."""

    options: list[inspect.Parameter]
    read: Callable[[Mapping[str, Any]], object]


def _text(name: str, metavar: str, text: str, *names: str, **more: Any) -> inspect.Parameter:
    option = typer.Option(*names, metavar=metavar, help=text, rich_help_panel=_PANEL, **more)
    return _parameter(name, str | None, option)


def _number(name: str, text: str) -> inspect.Parameter:
    return _parameter(name, int | None, typer.Option(metavar="N", help=text, rich_help_panel=_PANEL))


def _canary(given: Mapping[str, Any]) -> Canary | None:
    if given["canary"] is None:
        for name in ("max_failures", "patience"):
            if given[name] is not None:
                problem = f"--{name.replace('_', '-')} needs --canary N; say how many"
                raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
        return None
    patience = seconds("patience", given["patience"] or "5m") or 0.0
    try:
        return Canary(count=given["canary"], max_failures=given["max_failures"] or 0, patience=patience)
    except RedriveError as error:
        raise console.failure(error) from None


def _beginning(given: Mapping[str, Any]) -> datetime | float | None:
    if given["at"] is not None and given["in_"] is not None:
        raise console.refusal("say either --at or --in, not both", ExitStatus.NOT_UNDERSTOOD)
    return seconds("in", given["in_"]) if given["at"] is None else instant("at", given["at"])


def _redirect(given: Mapping[str, Any]) -> str | None:
    queue: str | None = given["to"]
    return queue


def _nothing(_given: Mapping[str, Any]) -> None:
    return None


_SPELLED: dict[str, _Spelling] = {
    "canary": _Spelling(
        [
            _number("canary", "Send N first, and the rest only if they succeed."),
            _number("max_failures", "How many canaries may fail again; 0 by default."),
            _text("patience", "TIME", "How long to wait for the canaries; 5m by default."),
        ],
        _canary,
    ),
    "redirect": _Spelling([_text("to", "QUEUE", "Send all of them there.", autocompletion=complete_queue)], _redirect),
    "transform": _Spelling([], _nothing),
    "at": _Spelling(
        [
            _text("at", "WHEN", "Begin then: 2026-11-01T22:00Z."),
            _text("in_", "TIME", "Begin after that long: 2h.", "--in"),
        ],
        _beginning,
    ),
}
