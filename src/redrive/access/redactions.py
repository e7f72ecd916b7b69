# SPDX-License-Identifier: MIT
"""The rules of redaction that are stored, beside those of a file, for the server and the command line alike."""

from collections.abc import Sequence
from typing import Final

from redrive.access.records import RedactionInfo, RedactionKind
from redrive.access.redaction import Redaction, RedactionRules
from redrive.access.store import RedactionStore
from redrive.clock import Clock
from redrive.errors import InvalidSetting, RedactionNotFound

_READ_EVERY_S: Final = 1.0
_FILE: Final = "redrive.toml"
_SETTINGS: Final = {
    RedactionKind.HEADER: "headers",
    RedactionKind.POINTER: "pointers",
    RedactionKind.PATTERN: "patterns",
}


def kind_of(word: str) -> RedactionKind:
    """Return the kind of a rule, from its word.

    Raises:
        InvalidSetting: there is no such kind.
    """
    known = {each.value: each for each in RedactionKind}
    if word not in known:
        raise InvalidSetting("kind", word, f"must be one of {', '.join(known)}")
    return known[word]


def rules_of_infos(infos: Sequence[RedactionInfo]) -> RedactionRules:
    """Return rules as one value. Pure."""
    return RedactionRules(
        **{setting: tuple(each.value for each in infos if each.kind is kind) for kind, setting in _SETTINGS.items()}
    )


def infos_of_rules(rules: RedactionRules) -> list[RedactionInfo]:
    """Return the rules of a file, as they are listed beside stored ones. Pure."""
    return [
        RedactionInfo(number=None, kind=kind, value=value, created_at=None, created_by=_FILE)
        for kind, setting in _SETTINGS.items()
        for value in getattr(rules, setting)
    ]


class Redactions:
    """The stored rules.

    Args:
        store: where they are kept.
        clock: where time comes from.
    """

    def __init__(self, store: RedactionStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._own: Redaction | None = None
        self._current: Redaction | None = None
        self._read_at = 0.0

    async def rules(self) -> list[RedactionInfo]:
        """Return the stored rules, the oldest first."""
        return await self._store.redactions()

    async def add(self, kind: str | RedactionKind, value: str, *, actor: str = "") -> RedactionInfo:
        """Hide something from now on; a rule that is there already is returned.

        Args:
            kind: what it goes by: ``header``, ``pointer`` or ``pattern``.
            value: the name of a header, a place in a body, or a pattern.
            actor: who adds it.

        Raises:
            InvalidSetting: such a rule cannot be used.
        """
        found = kind_of(kind) if isinstance(kind, str) else kind
        RedactionRules(**{_SETTINGS[found]: (value,)})
        if "\0" in value or not value.isprintable():
            raise InvalidSetting("value", value, "must be letters that can be printed; write others as escapes: \\n")
        self._current = None
        try:
            return await self._store.add_redaction(found, value, actor)
        finally:
            self._current = None

    async def remove(self, number: int) -> RedactionInfo:
        """Hide something no longer.

        Raises:
            RedactionNotFound: there is no such rule.
        """
        removed = await self._store.remove_redaction(number)
        self._current = None
        if removed is None:
            raise RedactionNotFound(number)
        return removed

    async def current(self, own: Redaction) -> Redaction:
        """Return what hides, by the rules of a file and the stored ones. Changes of other processes count in a second.

        Args:
            own: what hides by the rules of the file.
        """
        now = self._clock.monotonic()
        if self._current is None or self._own is not own or not 0 <= now - self._read_at < _READ_EVERY_S:
            stored = rules_of_infos(await self._store.redactions())
            if self._current is None or self._own is not own or self._current.rules != own.rules.and_also(stored):
                self._current = Redaction(own.rules.and_also(stored), self._clock) if stored else own
            self._own, self._read_at = own, now
        return self._current
