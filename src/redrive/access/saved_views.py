# SPDX-License-Identifier: MIT
"""Saved views: filters that people keep under a name, for all who use the server."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Protocol

from redrive.access.principal import Principal
from redrive.access.records import check_name
from redrive.access.roles import Role
from redrive.broker.views import View
from redrive.errors import Forbidden, ViewNotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedView:
    """A filter under a name.

    Attributes:
        number: its number.
        name: what it is called; an owner has one of each name.
        filter: the filter, as it was written: ages stay ages.
        by: what groups are compared by: ``exception``, ``queue``, ``type``, or a classifier.
        owner: who has saved it.
        created_at: when.
    """

    number: int
    name: str
    filter: str
    by: str
    owner: str
    created_at: datetime

    def view(self) -> View:
        """Return it as JSON."""
        return {**asdict(self), "created_at": self.created_at.isoformat()}


class ViewStore(Protocol):
    """Where saved views are kept."""

    async def save_view(self, name: str, filter_: str, by: str, owner: str) -> SavedView:
        """Store a view; one of the same name and owner is replaced, and keeps its number."""
        ...

    async def saved_views(self) -> list[SavedView]:
        """Return all views, in order of their names."""
        ...

    async def saved_view(self, number: int) -> SavedView | None:
        """Return a view; None: there is none with this number."""
        ...

    async def remove_view(self, number: int, owner: str) -> bool:
        """Remove a view of an owner; say whether it was there."""
        ...


class SavedViews:
    """Saved views, as the server uses them.

    Args:
        store: where they are kept.
    """

    def __init__(self, store: ViewStore) -> None:
        self._store = store

    async def all(self) -> list[SavedView]:
        """Return all of them, in order of their names."""
        return await self._store.saved_views()

    async def save(self, principal: Principal, name: str, filter_: str, by: str = "exception") -> SavedView:
        """Save a view; one of the same name and owner is replaced.

        Args:
            principal: whose it is.
            name: what it is called.
            filter_: the filter.
            by: what groups are compared by.

        Raises:
            InvalidSetting: this is no name.
        """
        return await self._store.save_view(check_name("name", name), filter_, by, principal.name)

    async def remove(self, principal: Principal, number: int) -> SavedView:
        """Remove a view: one's own, or as an admin any.

        Raises:
            ViewNotFound: there is none with this number.
            Forbidden: it is another's.
        """
        found = await self._store.saved_view(number)
        if found is None:
            raise ViewNotFound(number)
        if found.owner != principal.name and not principal.role.includes(Role.ADMIN):
            problem = f"this view is of {found.owner}"
            raise Forbidden("views.change", problem, "ask them, or an admin, to remove it; save one of your own")
        if not await self._store.remove_view(number, found.owner):
            raise ViewNotFound(number)
        return found
