# SPDX-License-Identifier: MIT
"""Reading a pipeline from TOML, and destinations from the store; every error names a line and what to write there.

::

    [pipeline]
    name = "reports"
    process = "shop.reports:route"

    [destinations.lab]
    transport = { kind = "file", path = "outbox" }
    timing = { per_day = 24, start = "00:15", zone = "Europe/Berlin" }
    merge = "shop.reports:merge"
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from redrive import duration, toml_lines
from redrive.errors import (
    InvalidPipeline,
    InvalidSetting,
    MissingExtra,
    PipelineFileError,
    RedriveError,
    UnknownSetting,
)
from redrive.parts import load_function
from redrive.pipeline.cadence import Backstop, Limits, timing_of
from redrive.pipeline.plan import PipelineDestination, PipelinePlan
from redrive.pipeline.transports import transport_of

if TYPE_CHECKING:
    from redrive.toml_lines import Place

T = TypeVar("T")
_FUNCTIONS: Final = ("process", "receive")
_DURATIONS: Final = ("keep", "catch_up_window", "probe_after")


_PARTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "transport": transport_of,
    "timing": timing_of,
    "limits": Limits.from_table,
    "backstop": Backstop.from_table,
}


def read_pipeline(path: Path) -> PipelinePlan:
    """Return the pipeline of a file in TOML.

    Raises:
        PipelineFileError: it cannot be read, or the pipeline in it cannot be used.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        problem = "there is no such file; a plan is a .toml file, or app:pipe for the variable pipe in app.py"
        raise PipelineFileError(path, 1, problem) from None
    except (OSError, UnicodeError) as error:
        raise PipelineFileError(path, 1, f"it cannot be read: {error}") from None
    return parse_pipeline(text, path)


def parse_pipeline(text: str, source: Path | None = None) -> PipelinePlan:
    """Return the pipeline that a text in TOML describes."""
    try:
        tables, lines = toml_lines.parse(text)
    except toml_lines.NotToml as error:
        raise PipelineFileError(source, error.line, f"this is not TOML: {error.problem}") from None
    return _PlanReader(tables, lines, source).plan()


def with_stored_destinations(plan: PipelinePlan, table: Mapping[str, Any]) -> PipelinePlan:
    """Return a pipeline with the destinations that another process has stored; its functions are those of this one."""
    known = {_name_of(each.merge): each.merge for each in plan.destinations.values() if each.merge is not None}
    made = {
        name: destination_of(name, given, lambda text: known.get(text) or load_function("merge", text))
        for name, given in table["destinations"].items()
    }
    return plan.with_destinations(made)


def _name_of(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"


def _made(_: str, make: Callable[[], T]) -> T:
    return make()


def destination_of(
    name: str,
    table: Mapping[str, Any],
    function: Callable[[str], Callable[..., Any]],
    part: Callable[[str, Callable[[], Any]], Any] = _made,
) -> PipelineDestination:
    """Return the destination that a table describes.

    Args:
        name: its name.
        table: the table.
        function: finds a function by its name.
        part: makes a part of it, whose key it is given; it knows where that is, if it cannot be made.
    """
    known = tuple(each for each in PipelineDestination.__dataclass_fields__ if each != "name")
    settings: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise UnknownSetting(f"destination {name!r}", key, known)
        settings[key] = duration.parse(key, value) if key in _DURATIONS and isinstance(value, str) else value
    if "transport" not in settings:
        raise InvalidSetting("transport", None, "must be given: transport = { kind = 'file', path = 'outbox' }")
    for key, read in _PARTS.items():
        if key in settings:
            settings[key] = part(key, partial(read, settings[key]))
    if isinstance(settings.get("merge"), str):
        settings["merge"] = function(settings["merge"])
    if "retry" in settings and isinstance(settings["retry"], list):
        settings["retry"] = tuple(settings["retry"])
    return PipelineDestination(name=name, **settings)


def _exceptions(names: object) -> tuple[type[Exception], ...]:
    """Return the exceptions that a list of names has: ``shop.errors:BadReport``, or ``ValueError`` for Python's own."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidSetting("final", names, "must be a list of names of exceptions: ['ValueError', 'module:Name']")
    found: list[type[Exception]] = []
    for name in names:
        loaded: object = load_function("final", name if ":" in name else f"builtins:{name}")
        if not isinstance(loaded, type) or not issubclass(loaded, Exception):
            raise InvalidSetting("final", name, "must be the name of an exception")
        found.append(loaded)
    return tuple(found)


class _PlanReader:
    """Makes a pipeline of tables, and finds the line of every problem."""

    def __init__(self, tables: Mapping[str, Any], lines: "dict[Place, int]", source: Path | None) -> None:
        self._tables = tables
        self._lines = lines
        self._source = source

    def plan(self) -> PipelinePlan:
        """Return the pipeline."""
        self._check_known((), self._tables, ("pipeline", "destinations"))
        head = self._section("pipeline")
        fields = tuple(each for each in PipelinePlan.__dataclass_fields__ if each != "destinations")
        self._check_known(("pipeline",), head, fields)
        settings = {key: self._setting(key, value) for key, value in head.items()}
        for needed in ("name", "process"):
            if needed not in settings:
                self._fail(("pipeline",), f"the pipeline needs a {needed}")
        destinations = {
            name: self._try(("destinations", name), partial(self._destination, name, table))
            for name, table in self._section("destinations").items()
        }
        return self._try(("pipeline",), lambda: PipelinePlan(destinations=destinations, **settings))

    def _setting(self, key: str, value: Any) -> Any:  # noqa: ANN401 - a setting of any kind
        if key in _FUNCTIONS and isinstance(value, str):
            return self._try(("pipeline", key), lambda: load_function(key, value))
        if key in _DURATIONS and isinstance(value, str):
            return self._try(("pipeline", key), lambda: duration.parse(key, value))
        if key == "final":
            return self._try(("pipeline", key), lambda: _exceptions(value))
        return value

    def _destination(self, name: str, table: object) -> PipelineDestination:
        if not isinstance(table, dict):
            raise InvalidSetting(name, table, f"must be a table: write [destinations.{name}]")
        place = ("destinations", name)
        return destination_of(
            name,
            table,
            lambda text: load_function("merge", text),
            lambda key, make: self._try((*place, key), make),
        )

    def _section(self, name: str) -> dict[str, Any]:
        section = self._tables.get(name, {})
        if not isinstance(section, dict):
            self._fail((name,), f"must be a table: write [{name}]")
        return section

    def _check_known(self, place: "Place", table: Mapping[str, object], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                self._fail((*place, str(key)), str(UnknownSetting("a file with a pipeline", str(key), known)))

    def _try(self, place: "Place", make: Callable[[], T]) -> T:
        try:
            return make()
        except InvalidPipeline as error:
            self._fail((*place, *error.part.split(".")), str(error))
        except (UnknownSetting, InvalidSetting) as error:
            self._fail((*place, *error.setting.split(".")), str(error))
        except (MissingExtra, PipelineFileError):
            raise
        except RedriveError as error:
            self._fail(place, str(error))

    def _fail(self, place: "Place", problem: str) -> NoReturn:
        line, _ = toml_lines.nearest(self._lines, place)
        raise PipelineFileError(self._source, line, problem) from None
