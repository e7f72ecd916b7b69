# SPDX-License-Identifier: MIT
"""Routes, and the receivers of their events."""

from redrive.errors.branches import Unavailable, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


class InvalidRoute(UsageError, ValueError, code="invalid-route"):
    """A route cannot be used, or does not fit the others. Nothing was changed.

    Attributes:
        route: its name.
        problem: what is wrong, and how to correct it.
        part: where in the route: ``source``, ``filters.2``, ``sender`` or the name of a setting.
    """

    def __init__(self, route: str, problem: str, part: str = "") -> None:
        super().__init__(route, problem, part)
        self.route = route
        self.problem = problem
        self.part = part

    def __str__(self) -> str:
        where = f"route {self.route!r}, {self.part}" if self.part else f"route {self.route!r}"
        return f"{where}: {self.problem}"


class RouteFileError(UsageError, code="route-file-error"):
    """A file of routes cannot be used. Nothing was changed.

    Attributes:
        source: the file, or None for a text.
        line: the line at fault, counted from 1.
        problem: what is wrong there and how to correct it.
    """

    def __init__(self, source: "Path | None", line: int, problem: str) -> None:
        super().__init__(source, line, problem)
        self.source = source
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source or 'routes'}, line {self.line}: {self.problem}"


class RouteNotFound(UsageError, LookupError, code="route-not-found"):
    """No route has this name.

    Attributes:
        route: the name.
        application: the application that was searched.
        similar: the name that was perhaps meant.
    """

    def __init__(self, route: str, application: str = "default", similar: "str | None" = None) -> None:
        super().__init__(route, application, similar)
        self.route = route
        self.application = application
        self.similar = similar

    def __str__(self) -> str:
        meant = f"did you mean {self.similar!r}? Otherwise " if self.similar is not None else ""
        return (
            f"application {self.application!r} has no route {self.route!r}; {meant}redrive routes list shows all routes"
        )


class RouteConflict(UsageError, code="route-conflict"):
    """Another process has changed the routes meanwhile, or the state of a route does not allow the change.

    Attributes:
        route: the route's name.
        problem: what is in the way, and what to do.
    """

    def __init__(self, route: str, problem: str) -> None:
        super().__init__(route, problem)
        self.route = route
        self.problem = problem

    def __str__(self) -> str:
        return f"route {self.route!r}: {self.problem}"


class ReceiverFull(Unavailable, code="receiver-full"):
    """A receiver takes no more events for now: as many as allowed are on their way.

    Attributes:
        receiver: which one.
        most: how many may be on their way.
    """

    def __init__(self, receiver: str, most: int) -> None:
        super().__init__(receiver, most)
        self.receiver = receiver
        self.most = most

    def __str__(self) -> str:
        events = "1 event" if self.most == 1 else f"{self.most:,} events"
        return f"{self.receiver} has {events} on the way and takes no more for now; try again later"
