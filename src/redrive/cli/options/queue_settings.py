# SPDX-License-Identifier: MIT
"""An option for each setting of a queue or a topic, made of the fields of ``QueueSettings`` and ``TopicSettings``."""

import inspect
from dataclasses import Field, fields
from typing import Annotated, Any, cast

import typer

from redrive.broker import (
    DurationSetting,
    FlagSetting,
    JourneySetting,
    QueueOptions,
    QueueSettings,
    TopicOptions,
    TopicSettings,
    WholeSetting,
)
from redrive.cli.exit_status import ExitStatus
from redrive.cli.options.time import seconds
from redrive.cli.output import console

_METAVARS = {
    DurationSetting: "TIME",
    WholeSetting: "N",
    FlagSetting: "yes|no",
    JourneySetting: "trouble|all|none|SHARE",
}


class _Stated:
    """Settings that were stated on the command line."""

    kind: type[QueueSettings | TopicSettings]

    def __init__(self, **texts: str | None) -> None:
        self._texts = texts

    def values(self) -> dict[str, object]:
        """Return their values, by name."""
        kinds = {each.name: each.metadata["kind"] for each in fields(self.kind)}
        return {name: _value(name, text, kinds[name]) for name, text in self._texts.items() if text is not None}

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """Return the options, as a command takes them."""
        return [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[str | None, _option(each)],
            )
            for each in fields(cls.kind)
        ]


class StatedSettings(_Stated):
    """The settings of a queue that were stated on the command line."""

    kind = QueueSettings

    @property
    def stated(self) -> QueueOptions:
        """Their values, by name."""
        return cast("QueueOptions", self.values())


class StatedTopicSettings(_Stated):
    """The settings of a topic that were stated on the command line."""

    kind = TopicSettings

    @property
    def stated(self) -> TopicOptions:
        """Their values, by name."""
        return cast("TopicOptions", self.values())


def setting_text(setting: "Field[Any]", value: object) -> str:
    """Return the value of a setting in words."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(setting.metadata["kind"], JourneySetting):
        return str(value)
    return f"{value:,g} s" if isinstance(setting.metadata["kind"], DurationSetting) else f"{value:,}"


def _option(setting: "Field[Any]") -> Any:  # noqa: ANN401 - what typer's own function returns
    kind, text = setting.metadata["kind"], setting.metadata["help"]
    sentence = f"{text[0].upper()}{text[1:]}; {setting_text(setting, setting.default)} by default."
    return typer.Option(metavar=_METAVARS[type(kind)], help=sentence, show_default=False)


def _value(name: str, text: str, kind: object) -> object:
    option = name.replace("_", "-")
    if isinstance(kind, DurationSetting):
        return seconds(option, text)
    if isinstance(kind, WholeSetting):
        return _whole(option, text)
    if isinstance(kind, JourneySetting):
        return text
    return _yes_or_no(option, text)


def _whole(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise console.refusal(f"--{option} {text!r}: write a whole number", ExitStatus.NOT_UNDERSTOOD) from None


def _yes_or_no(option: str, text: str) -> bool:
    try:
        return {"yes": True, "no": False}[text.lower()]
    except KeyError:
        raise console.refusal(f"--{option} {text!r}: write yes or no", ExitStatus.NOT_UNDERSTOOD) from None
