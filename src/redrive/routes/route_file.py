# SPDX-License-Identifier: MIT
"""Reading routes from TOML, YAML and JSON; every error names a line and what to write there.

A file has an ``application``, ``receivers`` that several routes can share, and ``routes``::

    [receivers.orders]
    kind = "http"
    path = "/orders"

    [routes.big-orders]
    source = "orders"
    filters = [{ kind = "match", expression = "body.total > 100" }]
    sender = { kind = "webhook", url = "https://example.com/hook" }
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from redrive import toml_lines
from redrive.errors import InvalidRoute, InvalidSetting, MissingExtra, RedriveError, RouteFileError, UnknownSetting
from redrive.routes import kinds, yaml_lines
from redrive.routes.parts import EventReceiver, Table
from redrive.routes.plan import plan_of
from redrive.routes.route import DEFAULT_APPLICATION, Route, check_name, settings_of

if TYPE_CHECKING:
    from redrive.toml_lines import Place

T = TypeVar("T")
_SECTIONS = ("application", "receivers", "routes")


def read_routes(path: Path) -> list[Route]:
    """Return the routes of a file: YAML if its name ends in ``.yaml`` or ``.yml``, otherwise TOML.

    Raises:
        RouteFileError: it cannot be read, or a route in it cannot be used.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise RouteFileError(path, 1, f"it cannot be read: {error}") from None
    return parse_yaml(text, path) if path.suffix in (".yaml", ".yml") else parse_toml(text, path)


def parse_toml(text: str, source: Path | None = None) -> list[Route]:
    """Return the routes that a text in TOML describes."""
    return _RouteReader(*_toml(text, source), source).routes()


def parse_yaml(text: str, source: Path | None = None) -> list[Route]:
    """Return the routes that a text in YAML describes."""
    return _RouteReader(*_yaml(text, source), source).routes()


def located(error: InvalidRoute, path: Path) -> RouteFileError | InvalidRoute:
    """Return the error about a route with its line in a file; as it is if the file does not have that route."""
    try:
        text = path.read_text(encoding="utf-8")
        _, lines = _yaml(text, path) if path.suffix in (".yaml", ".yml") else _toml(text, path)
    except (OSError, UnicodeError, RedriveError):  # it was changed or removed meanwhile
        return error
    if ("routes", error.route) not in lines:
        return error
    line, _ = toml_lines.nearest(lines, ("routes", error.route, *error.part.split(".")))
    return RouteFileError(path, line, str(error))


def _toml(text: str, source: Path | None) -> "tuple[object, dict[Place, int]]":
    try:
        return toml_lines.parse(text)
    except toml_lines.NotToml as error:
        raise RouteFileError(source, error.line, f"this is not TOML: {error.problem}") from None


def _yaml(text: str, source: Path | None) -> "tuple[object, dict[Place, int]]":
    try:
        return yaml_lines.parse(text)
    except ModuleNotFoundError:
        raise MissingExtra("a file of routes in YAML", "routes") from None
    except yaml_lines.NotYaml as error:
        raise RouteFileError(source, error.line, f"this is not YAML: {error.problem}") from None


def route_of(table: Table) -> Route:
    """Return the route that a table with its name and application describes, as ``Route.to_json`` writes it."""
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        raise RouteFileError(None, 1, "a route must be a table with a name, a source and a sender")
    rest = {name: value for name, value in table.items() if name not in ("name", "application")}
    name, application = table["name"], table.get("application", DEFAULT_APPLICATION)
    return _RouteReader({"application": application, "routes": {name: rest}}, {}, None).routes()[0]


def route_from_json(text: str) -> Route:
    """Return a route that the ledger has stored."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RouteFileError(None, 1, f"this is not JSON: {error}") from None
    return route_of(table)


class _RouteReader:
    """Makes routes of tables, and finds the line of every problem."""

    def __init__(self, tables: object, lines: "dict[Place, int]", source: Path | None) -> None:
        self._lines = lines
        self._source = source
        if not isinstance(tables, dict):
            self._fail((), "must be a table with 'routes'")
        self._check_known((), tables, _SECTIONS)
        self._application = tables.get("application", DEFAULT_APPLICATION)
        self._try(("application",), lambda: check_name("application", self._application))
        self._receivers = {
            name: self._try(("receivers", name), lambda table=table: kinds.receiver_of(table))  # type: ignore[misc]
            for name, table in self._section(tables, "receivers").items()
        }
        self._tables = self._section(tables, "routes")

    def routes(self) -> list[Route]:
        """Return all routes; they fit together."""
        made = [self._route(name, table) for name, table in self._tables.items()]
        self._try(("routes",), lambda: plan_of(made))
        return made

    def _route(self, name: str, table: Table) -> Route:
        place: Place = ("routes", name)
        settings = self._try(place, lambda: settings_of(table))
        for part in ("source", "sender"):
            if part not in table:
                self._fail(place, f"route {name!r} needs a {part}")
        filters = table.get("filters", [])
        if not isinstance(filters, list):
            self._fail((*place, "filters"), "must be a list of filters: filters = [{ kind = 'match', ... }]")
        chain = [
            self._try((*place, "filters", str(number)), lambda each=each: kinds.filter_of(each))  # type: ignore[misc]
            for number, each in enumerate(filters, start=1)
        ]
        sender = self._try((*place, "sender"), lambda: kinds.sender_of(table["sender"]))
        receiver = self._receiver(place, table["source"])
        return self._try(
            place,
            lambda: Route(
                name=name,
                source=receiver,
                filters=tuple(chain),
                sender=sender,
                application=self._application,
                settings=settings,
            ),
        )

    def _receiver(self, place: "Place", source: object) -> EventReceiver:
        if not isinstance(source, str):
            return self._try((*place, "source"), lambda: kinds.receiver_of(source))  # type: ignore[arg-type]
        if source not in self._receivers:
            known = ", ".join(self._receivers) or f"none yet: write [receivers.{source}]"
            self._fail((*place, "source"), f"there is no receiver {source!r}; there are: {known}")
        return self._receivers[source]

    def _section(self, tables: Table, name: str) -> dict[str, Table]:
        section = tables.get(name, {})
        if not isinstance(section, dict) or not all(isinstance(table, dict) for table in section.values()):
            self._fail((name,), f"must be a table of tables: write [{name}.some-name]")
        return section

    def _check_known(self, place: "Place", table: Mapping[str, object], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                self._fail((*place, str(key)), str(UnknownSetting("a file of routes", str(key), known)))

    def _try(self, place: "Place", make: Callable[[], T]) -> T:
        try:
            return make()
        except UnknownSetting as error:
            self._fail((*place, error.setting), str(error))
        except InvalidSetting as error:
            self._fail((*place, *error.setting.split(".")), str(error))
        except InvalidRoute as error:
            self._fail(("routes", error.route, *error.part.split(".")), str(error))
        except MissingExtra:
            raise
        except RedriveError as error:
            self._fail(place, str(error))
        except Exception as error:  # noqa: BLE001 - a part of another package may raise anything
            self._fail(place, f"{type(error).__name__}: {error}")

    def _fail(self, place: "Place", problem: str) -> NoReturn:
        """Raise the error for the nearest line that is known."""
        line, found = toml_lines.nearest(self._lines, place)
        name = ".".join(found[:2])
        text = problem if not name or found[-1] in problem else f"{name}: {problem}"
        raise RouteFileError(self._source, line, text) from None
