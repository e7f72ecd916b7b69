# SPDX-License-Identifier: MIT
"""Groups of options: a command takes each group as one value, and the command line shows the options in it.

A group is a dataclass whose fields are annotated as the parameters of a Typer command, or a class with a class method
``parameters`` that returns them and a constructor that takes their values by name.
"""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer: with the options of its groups in place of the groups.

    The names of all options of a command are different.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if _is_group(hint)}
    names = {name: [each.name for each in _parameters(group)] for name, group in groups.items()}
    taken: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            taken += _parameters(groups[parameter.name])
        else:
            taken.append(parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY))

    def ungrouped(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each: given.pop(each) for each in names[name]})
        command(**given)

    ungrouped.__name__, ungrouped.__doc__ = command.__name__, command.__doc__
    ungrouped.__annotations__ = {each.name: each.annotation for each in taken}
    ungrouped.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]  # as inspect documents it
    return ungrouped


def _is_group(hint: object) -> bool:
    return isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "parameters"))


def _parameters(group: Any) -> list[inspect.Parameter]:  # noqa: ANN401 - either kind of group
    if hasattr(group, "parameters"):
        return list(group.parameters())
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(group)
    ]
