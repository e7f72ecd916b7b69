# SPDX-License-Identifier: MIT
"""The public surface of Redrive, as names and as text; run it (`make api`) to rewrite public_api.txt.

A two-part import path is public, and its ``__all__`` says which names are: ``redrive.retry.CircuitBreaker``.
A three-part path is private, unless its package lists the module: ``redrive.broker.port``.
"""

import importlib
import inspect
import pkgutil
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import redrive

LISTING = Path(__file__).with_name("public_api.txt")


class Exported(NamedTuple):
    """One name in one module's ``__all__``, and what it stands for."""

    module: str
    name: str
    value: object

    @property
    def path(self):
        return f"{self.module}.{self.name}"


def public_modules() -> list[types.ModuleType]:
    """Return ``redrive`` and the modules directly in it that have an ``__all__``."""
    paths = ["redrive", *(f"redrive.{found.name}" for found in pkgutil.iter_modules(redrive.__path__))]
    modules = [importlib.import_module(path) for path in sorted(paths)]
    found = [module for module in modules if hasattr(module, "__all__")]
    listed = [getattr(module, name) for module in found for name in module.__all__]
    inner = {each.__name__: each for each in listed if isinstance(each, types.ModuleType)}
    return found + [inner[name] for name in sorted(inner) if hasattr(inner[name], "__all__")]


def exported() -> list[Exported]:
    """Return every public name, module by module."""
    return [
        Exported(module.__name__, name, getattr(module, name))
        for module in public_modules()
        for name in sorted(module.__all__)
    ]


def parameters(value: object) -> list[inspect.Parameter]:
    """Return what can be passed to a public function or class by name."""
    if not callable(value):
        return []
    return [
        parameter
        for parameter in inspect.signature(value).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]


def listing() -> str:
    """Return the whole surface as text, the same on every Python version."""
    names = exported()
    return "".join(f"{line}\n" for item in names for line in _describe(item, names))


def _describe(item: Exported, names: list[Exported]) -> Iterator[str]:
    home = _home(item, names)
    if home != item:
        yield f"{item.path} = {home.path}"
    elif isinstance(item.value, type):
        bases = ", ".join(base.__qualname__ for base in item.value.__bases__ if base is not object)
        yield f"class {item.path}({bases})"
        public = {other.value for other in names if isinstance(other.value, type)}
        yield from (f"    {line}" for line in _describe_members(item, public))
    elif inspect.isroutine(item.value):
        yield _describe_routine(item.path, item.value)
    elif inspect.ismodule(item.value):
        yield f"module {item.path}"
        yield from (f"    {line}" for line in _describe_functions(item))
    elif isinstance(item.value, types.UnionType):
        yield f"{item.path} = {_annotation(item.value)}"
    else:
        yield f"{item.path}: {type(item.value).__qualname__}"


def _describe_functions(item: Exported) -> Iterator[str]:
    """Yield the public functions of a module that a package exports as a whole."""
    for name, value in sorted(vars(item.value).items()):
        if inspect.isfunction(value) and value.__module__ == item.path and not name.startswith("_"):
            yield _describe_routine(f"{item.path}.{name}", value)


def _home(item: Exported, names: list[Exported]) -> Exported:
    """Return where a name that several modules export is at home: as near as possible to its definition."""
    defined_in = f"{getattr(item.value, '__module__', '')}."
    homes = [other for other in names if other.value is item.value and defined_in.startswith(f"{other.module}.")]
    return max(homes, key=lambda other: len(other.module), default=item)


def _describe_members(item: Exported, public: set[type]) -> Iterator[str]:
    """Yield the constructor and what a class adds to its public bases; a private base's members count as its own."""
    ours = [owner for owner in item.value.__mro__ if owner.__module__.startswith("redrive")]
    if any("__init__" in vars(owner) or "__new__" in vars(owner) for owner in ours):
        yield f"{item.path}{_signature(item.value)}".removesuffix(" -> None")
    inherited = {owner for base in ours[1:] if base in public for owner in base.__mro__}
    own = [owner for owner in ours if owner not in inherited]
    members = {name: member for owner in reversed(own) for name, member in vars(owner).items()}
    annotations = {name: kind for owner in reversed(ours) for name, kind in inspect.get_annotations(owner).items()}
    for name in sorted(members):
        if not name.startswith("_"):
            yield _describe_member(f"{item.path}.{name}", members[name], annotations.get(name))


def _describe_member(path: str, member: object, annotation: object) -> str:
    if isinstance(member, property):
        return f"{path}: {_annotation(inspect.signature(member.fget).return_annotation)}"
    if isinstance(member, classmethod | staticmethod):
        return f"{type(member).__name__} {_describe_routine(path, member.__func__)}"
    if inspect.isroutine(member) and not inspect.ismemberdescriptor(member):
        return _describe_routine(path, member)
    if isinstance(member, str | int | float):
        return f"{path} = {member!r}"
    return f"{path}: {_annotation(annotation)}" if annotation else path


def _describe_routine(path: str, routine: object) -> str:
    kind = "async def" if inspect.iscoroutinefunction(routine) else "def"
    return f"{kind} {path}{_signature(routine)}"


class _Verbatim:
    """Prints as the text it is given, so that ``str(signature)`` shows no addresses and no doubled quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _signature(value: object) -> str:
    if inspect.isbuiltin(value):
        return "(...)"  # some have a signature only in newer Pythons
    signature = inspect.signature(value)
    empty = inspect.Parameter.empty
    shown = [
        parameter.replace(
            annotation=empty if parameter.annotation is empty else _Verbatim(_annotation(parameter.annotation)),
            default=empty if parameter.default is empty else _Verbatim(_default(parameter.default)),
        )
        for parameter in signature.parameters.values()
    ]
    returned = "" if signature.return_annotation is empty else f" -> {_annotation(signature.return_annotation)}"
    return f"{signature.replace(parameters=shown, return_annotation=empty)}{returned}"


def _annotation(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text)


def _default(default: object) -> str:
    if isinstance(default, type) or inspect.isroutine(default):
        return default.__qualname__
    if isinstance(default, set | frozenset):
        return f"<{type(default).__qualname__} of {len(default)}>"  # unordered, and it may be long
    text = repr(default)
    return f"<{type(default).__qualname__}>" if " at 0x" in text else text


if __name__ == "__main__":
    LISTING.write_text(listing())
