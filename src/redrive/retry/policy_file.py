# SPDX-License-Identifier: MIT
"""Reading a policy file, in TOML or in the XML of the Transient Fault Handling block. Pure: text in, policies out.

Both forms become the same nested tables, with the line of every entry beside them, and are checked by the same code; so
every error names a line and what to write there.
"""

from redrive import duration
from redrive.errors import InvalidSetting, PolicyFileError, UnknownPolicy
from redrive.retry.adaptive import Adaptive
from redrive.retry.breaker import CircuitBreaker, check_when_open
from redrive.retry.budget import RetryBudget
from redrive.retry.policy import Delays, Exponential, Fixed, Linear, check_max_attempts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path
    from typing import Any, NoReturn, TypeAlias, TypeVar

    from redrive.retry.policy import Policy

    Table: TypeAlias = dict[str, Any]
    Place: TypeAlias = tuple[str, ...]
    T = TypeVar("T")

_KINDS: "dict[str, tuple[type[Policy], tuple[str, ...]]]" = {
    "exponential": (Exponential, ("min", "delta", "max", "jitter", "fast_first", "max_attempts")),
    "linear": (Linear, ("start", "step", "max", "jitter", "fast_first", "max_attempts")),
    "fixed": (Fixed, ("delay", "jitter", "fast_first", "max_attempts")),
    "delays": (Delays, ("delays", "jitter", "fast_first", "max_attempts")),
    "adaptive": (Adaptive, ("fallback", "max", "jitter", "statuses", "max_attempts")),
}
_SECTIONS = ("default", "policies", "operations", "breakers", "budgets")
_CALL_SETTINGS = ("deadline", "attempt_timeout", "breaker", "budget", "when_open")
_DURATIONS = {"min", "delta", "max", "start", "step", "delay", "deadline", "attempt_timeout", "window", "open_for"}


class PolicySet:
    """What a policy file says.

    Attributes:
        default: the name of the policy for operations that the file does not mention.
        policies: the settings of ``retry`` for each named policy.
        operations: for each operation, its policy's name (or None) and the settings it overrides.
        breakers: the settings of each named circuit breaker.
        budgets: the settings of each named retry budget.
    """

    def __init__(self, tables: "Table", lines: "dict[Place, int]", source: "Path | None") -> None:
        self._lines = lines
        self._source = source
        self._check_keys((), tables, _SECTIONS)
        sections = {name: self._section(tables, name) for name in _SECTIONS[1:]}
        self.breakers = {name: self._arguments(("breakers", name), t) for name, t in sections["breakers"].items()}
        self.budgets = {name: self._arguments(("budgets", name), t) for name, t in sections["budgets"].items()}
        self._build_once(CircuitBreaker, "breakers", self.breakers)
        self._build_once(RetryBudget, "budgets", self.budgets)
        self._tables = sections["policies"]
        self.policies = {name: self._policy(name) for name in self._tables}
        self.operations = {name: self._operation(name, table) for name, table in sections["operations"].items()}
        self.default = self._default(tables.get("default"))

    def settings_for(self, operation: str, policy: str | None = None) -> "Table":
        """Return the settings of ``retry`` for an operation: its policy's, then its own on top."""
        named, overrides = self.operations.get(operation, (None, {}))
        name = policy if policy is not None else named or self.default
        if name not in self.policies:
            raise UnknownPolicy(name, tuple(self.policies))
        return self.policies[name] | overrides

    def _section(self, tables: "Table", name: str) -> "dict[str, Table]":
        section = tables.get(name, {})
        if not isinstance(section, dict) or not all(isinstance(table, dict) for table in section.values()):
            self._fail((name,), f"must be a table of tables: write [{name}.some-name]")
        return section

    def _policy(self, name: str) -> "Table":
        """Return the settings of one named policy, the policy object among them."""
        place = ("policies", name)
        table = self._with_attempts(place, self._tables[name])
        kind = table.pop("kind", "exponential")
        if not isinstance(kind, str) or kind not in _KINDS:
            self._fail((*place, "kind"), f"unknown kind {kind!r}; there are: {', '.join(_KINDS)}")
        build, known = _KINDS[kind]
        self._check_keys(place, table, ("kind", "max_retries", *known, *_CALL_SETTINGS))
        given = self._arguments(place, {key: value for key, value in table.items() if key in known})
        if "fallback" in given:
            given["fallback"] = self._fallback(place, given["fallback"])
        calling = self._call_settings(place, {key: value for key, value in table.items() if key not in known})
        return {"policy": self._built(build, place, given), **calling}

    def _fallback(self, place: "Place", name: object) -> "Policy":
        table = self._tables.get(name) if isinstance(name, str) else None
        if table is None or table.get("kind") == "adaptive":
            self._fail((*place, "fallback"), "must be the name of a policy in this file that is not adaptive itself")
        policy: Policy = self._policy(str(name))["policy"]
        return policy

    def _operation(self, name: str, table: "Table") -> "tuple[str | None, Table]":
        place = ("operations", name)
        table = self._with_attempts(place, table)
        policy = table.pop("policy", None)
        if policy is not None and (not isinstance(policy, str) or policy not in self.policies):
            self._fail((*place, "policy"), f"no policy is called {policy!r}; there are: {', '.join(self.policies)}")
        self._check_keys(place, table, ("policy", "max_attempts", "max_retries", *_CALL_SETTINGS))
        return policy, self._call_settings(place, table)

    def _call_settings(self, place: "Place", table: "Table") -> "Table":
        """Return the settings of the call itself: its limits, and the names of its breaker and budget."""
        settings = self._arguments(place, table)
        for key, there in (("breaker", self.breakers), ("budget", self.budgets)):
            if key in settings and (not isinstance(settings[key], str) or settings[key] not in there):
                self._fail(
                    (*place, key), f"no {key} is called {settings[key]!r}; define it as [{key}s.{settings[key]}]"
                )
        for key in ("deadline", "attempt_timeout"):
            if key in settings:
                self._built(duration.seconds, place, {"setting": key, "value": settings[key]})
        for key, check in (("when_open", check_when_open), ("max_attempts", check_max_attempts)):
            if key in settings:
                self._built(check, place, {"value": settings[key]})
        return settings

    def _with_attempts(self, place: "Place", table: "Table") -> "Table":
        """Return the table with a number of retries turned into one of attempts, which counts the first try too."""
        if "max_retries" not in table:
            return dict(table)
        if "max_attempts" in table:
            self._fail((*place, "max_retries"), "write max_retries or max_attempts, not both")
        retries = table["max_retries"]
        if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
            self._fail((*place, "max_retries"), "must be a whole number from 0")
        return {key: value for key, value in table.items() if key != "max_retries"} | {"max_attempts": retries + 1}

    def _arguments(self, place: "Place", table: "Table") -> "Table":
        """Return a table as arguments: lengths of time in seconds, everything else as it is."""
        arguments = dict(table)
        for key, value in table.items():
            if key in _DURATIONS:
                arguments[key] = self._built(duration.parse, place, {"setting": key, "text": value})
            elif key == "delays" and isinstance(value, list):
                arguments[key] = [self._built(duration.parse, place, {"setting": key, "text": each}) for each in value]
        return arguments

    def _build_once(self, build: "type[object]", section: str, tables: "dict[str, Table]") -> None:
        """Build each of them and discard it, so that an error is reported now and not at the first call."""
        for name, arguments in tables.items():
            self._check_keys((section, name), arguments, build.__init__.__kwdefaults__ or ())
            self._built(build, (section, name), arguments)

    def _default(self, name: object) -> str:
        if name is None and len(self.policies) == 1:
            return next(iter(self.policies))
        if not isinstance(name, str) or name not in self.policies:
            known = ", ".join(self.policies) or "none yet: write [policies.standard]"
            self._fail(("default",), f"default must name one of the policies: {known}")
        return str(name)

    def _built(self, build: "Callable[..., T]", place: "Place", arguments: "Table") -> "T":
        try:
            return build(**arguments)
        except InvalidSetting as error:
            self._fail((*place, error.setting.partition("[")[0]), str(error))

    def _check_keys(self, place: "Place", table: "Table", known: "Collection[str]") -> None:
        for key in table:
            if key not in known:
                from difflib import get_close_matches

                near = get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
                self._fail((*place, key), f"unknown setting {key!r}; {hint}")

    def _fail(self, place: "Place", problem: str) -> "NoReturn":
        """Raise the error for the nearest line that is known."""
        while place and place not in self._lines:
            place = place[:-1]
        name = ".".join(place[:2])
        raise PolicyFileError(
            self._source, self._lines.get(place, 1), f"{name}: {problem}" if name else problem
        ) from None


def parse_toml(text: str, source: "Path | None" = None) -> PolicySet:
    """Read policies written in TOML."""
    from redrive import toml_lines

    try:
        tables, lines = toml_lines.parse(text)
    except toml_lines.NotToml as error:
        raise PolicyFileError(source, error.line, f"this is not TOML: {error.problem}") from None
    return PolicySet(tables, lines, source)


_XML_KINDS = {
    "linearInterval": "fixed",
    "fixedInterval": "fixed",
    "incremental": "linear",
    "exponentialBackoff": "exponential",
}
_XML_SETTINGS: dict[str, dict[str, str]] = {
    "retryInterval": {"fixed": "delay"},
    "deltaBackoff": {"fixed": "delay", "exponential": "delta"},
    "initialInterval": {"linear": "start"},
    "retryIncrement": {"linear": "step"},
    "minBackoff": {"exponential": "min"},
    "maxBackoff": {"exponential": "max"},
    "maxRetryCount": dict.fromkeys(("fixed", "linear", "exponential"), "max_retries"),
    "fastFirst": dict.fromkeys(("fixed", "linear", "exponential"), "fast_first"),
    "firstFastRetry": dict.fromkeys(("fixed", "linear", "exponential"), "fast_first"),
}


def parse_xml(text: str, source: "Path | None" = None) -> PolicySet:
    """Read policies written in the XML vocabulary of the Transient Fault Handling block."""
    reader = _XmlReader(source)
    reader.read(text)
    return PolicySet(reader.tables, reader.lines, source)


class _XmlReader:
    """Collects the elements. A document type is refused: no file needs entities, and attacks use them."""

    def __init__(self, source: "Path | None") -> None:
        from xml.parsers.expat import ParserCreate

        self.tables: Table = {"policies": {}}
        self.lines: dict[Place, int] = {}
        self._source = source
        self._depth = 0
        self._parser = ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype

    def read(self, text: str) -> None:
        from xml.parsers.expat import ExpatError

        try:
            self._parser.Parse(text, True)  # noqa: FBT003 - expat's signature
        except ExpatError as error:
            problem = str(error).partition(":")[0]
            raise PolicyFileError(self._source, error.lineno, f"this is not XML: {problem}") from None

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            self._root(tag, attributes)
        else:
            self._policy(tag, dict(attributes))

    def _end(self, _tag: str) -> None:
        self._depth -= 1

    def _root(self, tag: str, attributes: dict[str, str]) -> None:
        if tag != "RetryPolicyConfiguration":
            self._fail(f"<{tag}> should be <RetryPolicyConfiguration>")
        for attribute in attributes:
            if attribute != "defaultRetryStrategy" and not attribute.startswith("xmlns"):
                self._fail(f"unknown attribute {attribute!r}; there is: defaultRetryStrategy")
        if "defaultRetryStrategy" in attributes:
            self.tables["default"] = attributes["defaultRetryStrategy"]
            self.lines["default",] = self._parser.CurrentLineNumber

    def _policy(self, tag: str, attributes: dict[str, str]) -> None:
        kind = _XML_KINDS.get(tag)
        if kind is None:
            self._fail(f"<{tag}> is no strategy; there are: {', '.join(_XML_KINDS)}")
        name = attributes.pop("name", "") or self._fail(f'<{tag}> needs a name="..."')
        if name in self.tables["policies"]:
            self._fail(f"two strategies are called {name!r}")
        self.lines["policies", name] = self._parser.CurrentLineNumber
        self.tables["policies"][name] = {
            "kind": kind,
            **dict(self._setting(kind, *pair) for pair in attributes.items()),
        }

    def _setting(self, kind: str, attribute: str, value: str) -> "tuple[str, object]":
        setting = _XML_SETTINGS.get(attribute, {}).get(kind)
        if setting is None:
            known = [name for name, kinds in _XML_SETTINGS.items() if kind in kinds]
            self._fail(f"unknown attribute {attribute!r}; there are: name, {', '.join(known)}")
        if setting == "max_retries":
            return setting, int(value) if value.isascii() and value.isdigit() and len(value) < 10 else value
        if setting == "fast_first":
            flags = {"true": True, "false": False}
            return setting, flags[value.lower()] if value.lower() in flags else self._fail(
                f'{attribute} is "true" or "false"'
            )
        return setting, value

    def _refuse_doctype(self, *_: object) -> None:
        self._fail("a document type is not allowed here; remove <!DOCTYPE ...>")

    def _fail(self, problem: str) -> "NoReturn":
        raise PolicyFileError(self._source, self._parser.CurrentLineNumber, problem)
