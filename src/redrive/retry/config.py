# SPDX-License-Identifier: MIT
"""Named policies from a file: a default, named ones, overrides per operation, read again while the program runs."""

from pathlib import Path
from threading import Lock
from weakref import WeakSet

from redrive.clock import system_clock
from redrive.duration import seconds
from redrive.errors import InvalidSetting, PolicyFileError, UnknownPolicy, UsageError
from redrive.retry.breaker import CircuitBreaker
from redrive.retry.budget import RetryBudget
from redrive.retry.events import PoliciesRejected, PoliciesReloaded
from redrive.retry.loops import Live
from redrive.retry.policy_file import parse_toml, parse_xml
from redrive.retry.retrier import Retry, retry
from redrive.retry.settings import RetryPlan
from redrive.telemetry import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Self, TypeVar, Unpack

    from redrive.clock import Clock
    from redrive.duration import Duration
    from redrive.retry.policy import Policy
    from redrive.retry.policy_file import PolicySet
    from redrive.retry.settings import On, OperationOptions, RetryOptions

    T = TypeVar("T")


_DEFAULTS: "Any" = dict(retry.__kwdefaults__ or {})
_PARSERS = {"toml": parse_toml, "xml": parse_xml}
_LARGEST_FILE_BYTES = 1_048_576


class Policies:
    """The policies of a file. Every retry made from it follows the file when it changes.

    Settings for a call come from, in order of rising priority: the defaults of ``retry``, the policy, the file's entry
    for the operation, and the code.
    """

    def __init__(self, book: "_Book") -> None:
        self._book = book

    @classmethod
    def load(cls, path: str | Path, *, reload_every: "Duration | None" = 5.0, clock: "Clock" = system_clock) -> "Self":
        """Read a policy file, ``.toml`` or ``.xml``.

        Args:
            path: the file.
            reload_every: how often, in seconds, a failed call checks whether the file has changed; None: never.
            clock: where time comes from.

        Raises:
            PolicyFileError: the file cannot be used; it names the line and what to write there.
        """
        source = Path(path)
        every = None if reload_every is None else seconds("reload_every", reload_every, zero=True)
        return cls(_Book(_read(source), source, every, clock))

    @classmethod
    def parse(cls, text: str, *, format: "Literal['toml', 'xml']" = "toml") -> "Self":
        """Read policies from a text."""
        if format not in _PARSERS:
            raise InvalidSetting("format", format, "must be 'toml' or 'xml'")
        return cls(_Book(_PARSERS[format](text), None, None, system_clock))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the policies."""
        return tuple(self._book.policies.policies)

    @property
    def default(self) -> str:
        """The name of the policy for operations that the file does not mention."""
        return self._book.policies.default

    def __getitem__(self, name: str) -> "Policy":
        """Return the current policy of that name."""
        if name not in self._book.policies.policies:
            raise UnknownPolicy(name, self.names)
        policy: Policy = self._book.policies.policies[name]["policy"]
        return policy

    def retry(
        self, operation: str = "", *, on: "On", policy: str | None = None, **settings: "Unpack[OperationOptions]"
    ) -> Retry:
        """Return a retry for an operation that follows the file.

        Args:
            operation: its name in the file's ``[operations]``, and in telemetry.
            on: what to retry.
            policy: the name of a policy, in place of the file's choice for this operation.
            settings: settings of ``redrive.retry.retry`` that override the file.

        Raises:
            UnknownPolicy: the file has no policy of that name.
        """
        stated: Any = {"on": on, "operation": operation, **settings}
        return _FileRetry(_LivePlan(self._book, operation, policy, stated))

    def reload(self) -> None:
        """Read the file again and use all of it, or, if it is invalid, none of it.

        Raises:
            PolicyFileError: the file cannot be used; the policies in force stay.
        """
        self._book.reload()


class _Book:
    """The policies in force, and the plans that change with them."""

    def __init__(self, policies: "PolicySet", source: Path | None, every: float | None, clock: "Clock") -> None:
        self.policies = policies
        self.plans: WeakSet[_LivePlan] = WeakSet()
        self._source = source
        self._every = every
        self._clock = clock
        self._lock = Lock()
        self._breakers: dict[str, tuple[dict[str, Any], CircuitBreaker]] = {}
        self._budgets: dict[str, tuple[dict[str, Any], RetryBudget]] = {}
        self._seen = _fingerprint(source)
        self._checked_at = clock.monotonic()

    def enrol(self, live: "_LivePlan") -> RetryPlan:
        """Return a plan from the policies in force, and replace it when they change."""
        with self._lock:  # otherwise a reload between the two lines would miss it
            plan = live.build()
            self.plans.add(live)
        return plan

    def reload(self, *, only_if_changed: bool = False) -> None:
        if self._source is None:
            raise UsageError("these policies were parsed from a text; there is no file to read again")
        with self._lock:
            there = _fingerprint(self._source)
            if only_if_changed and there == self._seen:
                return  # another call noticed it first
            self._seen = there
            self._replace(_read(self._source))
        report(PoliciesReloaded(str(self._source), tuple(self.policies.policies)))

    def refresh(self) -> None:
        """Reload if a check is due and the file has changed; an invalid file is reported, not raised."""
        now = self._clock.monotonic()
        if self._every is None or now - self._checked_at < self._every:
            return
        self._checked_at = now
        if _fingerprint(self._source) == self._seen:
            return
        try:
            self.reload(only_if_changed=True)
        except PolicyFileError as error:
            report(PoliciesRejected(str(self._source), error.line, error.problem))

    def settings_for(self, operation: str, policy: str | None) -> "dict[str, Any]":
        """Return the file's settings for an operation, with the breaker and budget objects that all calls share."""
        settings = self.policies.settings_for(operation, policy)
        if "breaker" in settings:
            name = settings["breaker"]
            stated = self.policies.breakers[name]
            settings["breaker"] = _kept(self._breakers, name, stated, lambda: CircuitBreaker(name, **stated))
        if "budget" in settings:
            name = settings["budget"]
            stated = self.policies.budgets[name]
            settings["budget"] = _kept(self._budgets, name, stated, lambda: RetryBudget(**stated))
        return settings

    def _replace(self, policies: "PolicySet") -> None:
        plans = list(self.plans)
        before = self.policies, dict(self._breakers), dict(self._budgets)
        self.policies = policies
        try:
            rebuilt = [plan.build() for plan in plans]
        except UnknownPolicy as error:
            self.policies, self._breakers, self._budgets = before
            raise PolicyFileError(self._source, 1, f"{error}, but the program asks for {error.name!r}") from None
        for live, plan in zip(plans, rebuilt, strict=True):
            live.plan = plan


class _LivePlan(Live):
    """The plan of one operation, built from the file and from the settings in the code."""

    __slots__ = ("__weakref__", "_book", "_operation", "_policy", "stated")

    def __init__(self, book: _Book, operation: str, policy: str | None, stated: "RetryOptions") -> None:
        self._book = book
        self._operation = operation
        self._policy = policy
        self.stated = stated
        super().__init__(book.enrol(self))

    def build(self) -> RetryPlan:
        return RetryPlan(_DEFAULTS | self._book.settings_for(self._operation, self._policy) | self.stated)

    def current(self) -> RetryPlan:
        self._book.refresh()
        return self.plan

    def with_stated(self, settings: "RetryOptions") -> "_LivePlan":
        operation = settings.get("operation", self._operation)
        return _LivePlan(self._book, operation, self._policy, {**self.stated, **settings})


class _FileRetry(Retry):
    """A retry whose plan follows a file."""

    __slots__ = ("_file_plan",)

    def __init__(self, live: _LivePlan) -> None:
        super().__init__(_DEFAULTS | live.stated, live)
        self._file_plan = live

    def _derive(self, settings: "RetryOptions") -> Retry:
        return _FileRetry(self._file_plan.with_stated(settings))


def _kept(
    there: "dict[str, tuple[dict[str, Any], T]]", name: str, settings: "dict[str, Any]", build: "Callable[[], T]"
) -> "T":
    """Return the object of that name, a new one only if its settings have changed: its state outlives a reload."""
    if name not in there or there[name][0] != settings:
        there[name] = (settings, build())
    return there[name][1]


def _read(source: Path) -> "PolicySet":
    parse = _PARSERS.get(source.suffix.lower().lstrip("."))
    if parse is None:
        raise PolicyFileError(source, 1, "the file's name must end in .toml or .xml")
    try:
        raw = source.read_bytes()
        if len(raw) > _LARGEST_FILE_BYTES:
            raise PolicyFileError(source, 1, f"the file is larger than {_LARGEST_FILE_BYTES:,} bytes")
        return parse(raw.decode("utf-8-sig"), source)  # editors on Windows begin a file with a byte order mark
    except OSError as error:
        raise PolicyFileError(source, 1, f"the file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise PolicyFileError(source, line, "the file is not UTF-8; save it as UTF-8") from error


def _fingerprint(source: Path | None) -> tuple[int, int] | None:
    """Return a stamp that changes when the file does; None if there is no file."""
    try:
        status = source.stat() if source is not None else None
    except OSError:
        return None
    return None if status is None else (status.st_mtime_ns, status.st_size)
