# SPDX-License-Identifier: MIT
"""Which failed messages a caller means, and what a request for them looks like. Pure: no I/O, no clock."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from redrive.errors import InvalidSetting
from redrive.recovery.filter import Filter

Chosen: TypeAlias = Filter | str | Sequence[str]
"""Which failed messages: a filter, the text of one, or a list of ids."""


def check_stated(chosen: Chosen) -> None:
    """Refuse an empty text: a variable that happens to be empty must not stand for everything."""
    if isinstance(chosen, str) and not chosen.strip():
        raise InvalidSetting("chosen", chosen, "must say which messages; 'status:unresolved' is every unresolved one")


def subject_of(chosen: Chosen) -> str:
    """Return what the audit trail calls them."""
    return f"filter:{chosen}" if isinstance(chosen, str | Filter) else f"{len(chosen)} ids"


def asked_for(chosen: Chosen, how: Mapping[str, Any]) -> str:
    """Return what a request looks like: the same for the same words, also where these mean another instant by now."""
    words: str | list[str] = sorted(map(str, chosen)) if not isinstance(chosen, str | Filter) else str(chosen)
    if isinstance(chosen, Filter) and chosen.written:
        words = chosen.written
    stated = {name: str(value) for name, value in how.items() if name not in ("actor", "reason", "key", "transform")}
    transform = how.get("transform")
    return json.dumps([words, stated, None if transform is None else transform.to_json()], sort_keys=True)
