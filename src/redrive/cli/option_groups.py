# SPDX-License-Identifier: MIT
"""Options that belong together, as one value: a command takes the group, the command line shows its options."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of its groups, each a dataclass, in place of the groups.

    The fields of a group are annotated as parameters of commands are. What they are called is unique in a command.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    taken: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            taken += _parameters(groups[parameter.name])
        else:
            taken.append(parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY))

    def spread_out(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        command(**given)

    spread_out.__name__, spread_out.__doc__ = command.__name__, command.__doc__
    spread_out.__annotations__ = {each.name: each.annotation for each in taken}
    spread_out.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]  # as inspect documents it
    return spread_out


def _parameters(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(group)
    ]
