# SPDX-License-Identifier: MIT
"""Which kinds of one group of parts there are, by the names that files use.

A kind is loaded when it is used. A program adds its own. Packages add kinds with entry points in the group
``redrive.`` and the group's name: the name of the entry point is the kind, and its object the class.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Generic, TypeVar

from redrive.errors import InvalidSetting, UsageError
from redrive.parts.part import DeclaredPart, Table

P = TypeVar("P", bound=DeclaredPart)


class PartKinds(Generic[P]):
    """The kinds of one group.

    Args:
        group: what its parts are called, such as ``senders``; their entry points are in ``redrive.senders``.
        package: where Redrive's own are.
        own: Redrive's own, each with its module in that package and its class: ``"log:LogSender"``.
        classes: what a class must be derived from, one of them.

    Attributes:
        added: what the program has added.
    """

    def __init__(self, group: str, package: str, own: Mapping[str, str], *classes: type[P]) -> None:
        self._group: Final = group
        self._package: Final = package
        self._own: Final = own
        self._classes: Final = classes
        self.added: dict[str, type[P]] = {}

    def names(self) -> tuple[str, ...]:
        """Return the names of all kinds."""
        return tuple(sorted({*self._own, *self.added, *entry_points_of(self._group)}))

    def holds(self, part: type) -> bool:
        """Say whether a class is one of this group."""
        return issubclass(part, self._classes)

    def add(self, part: type[P]) -> None:
        """Make a class of the program known by its ``kind``.

        Raises:
            UsageError: a kind of Redrive's own has this name.
        """
        if part.kind in self._own:
            raise UsageError(f"{part.kind!r} is a kind of Redrive's own {self._group}; choose another name")
        self.added[part.kind] = part

    def class_of(self, kind: str) -> type[P]:
        """Return the class of a kind.

        Raises:
            InvalidSetting: there is no such kind.
            UsageError: a package has added it, and it cannot be loaded, or is no class of this group.
        """
        if kind in self._own:
            module, _, name = self._own[kind].partition(":")
            own: type[P] = getattr(import_module(f"{self._package}.{module}"), name)
            return own
        if kind in self.added:
            return self.added[kind]
        if kind not in entry_points_of(self._group):
            raise self._unknown(kind)
        return self._loaded(kind)

    def part_of(self, table: Table) -> P:
        """Return the part that a table describes."""
        if not isinstance(table, dict) or not isinstance(table.get("kind"), str):
            raise InvalidSetting("kind", table, f"must be a table with a kind, one of: {', '.join(self.names())}")
        return self.class_of(table["kind"]).from_table(table)

    def _loaded(self, kind: str) -> type[P]:
        point = f"the entry point {kind!r} of redrive.{self._group}"
        try:
            found = entry_points_of(self._group)[kind].load()
        except Exception as error:
            raise UsageError(f"{point} cannot be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(found, type) or not issubclass(found, self._classes):
            wanted = " or ".join(each.__name__ for each in self._classes)
            raise UsageError(f"{point} is {found!r}; it must be a class of {wanted}")
        return found

    def _unknown(self, kind: str) -> InvalidSetting:
        from difflib import get_close_matches

        near = get_close_matches(kind, self.names(), 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        return InvalidSetting("kind", kind, f"is no kind of {self._group}; {meant}There are: {', '.join(self.names())}")


@cache
def entry_points_of(group: str) -> dict[str, EntryPoint]:
    """Return what packages have added to a group, by its names."""
    return {point.name: point for point in entry_points(group=f"redrive.{group}")}
