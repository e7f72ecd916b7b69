# SPDX-License-Identifier: MIT
"""Names of files, objects and URLs, made of a shipment by a template.

A template has places for what is known of a shipment: ``{pipeline}-{task}-{index:03}.csv``. The same shipment has the
same name in every attempt. No value can lead to another folder: what is neither a letter nor a digit, ``.``, ``_`` nor
``-`` is replaced, and a hash of the whole value then tells it from others.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from string import Formatter
from typing import Final
from urllib.parse import urlsplit

from redrive.errors import InvalidSetting
from redrive.http import request_rules
from redrive.pipeline.shipment import Shipment

PLACES: Final = ("delivery_id", "destination", "index", "pipeline", "slot", "task")
"""What a template may have places for."""

_UNIQUE: Final = ("delivery_id", "slot", "task")
_UNSAFE: Final = re.compile(r"^\.|[^A-Za-z0-9._-]")
_LITERAL: Final = re.compile(r"[A-Za-z0-9._=-]*")
_NUMBER: Final = re.compile(r"(0?[1-9])?")
_TIME: Final = re.compile(r"(%[YymdHMSj]|[A-Za-z0-9._=-])*")
_USUAL_TIME: Final = "%Y%m%dT%H%M%SZ"
_LONGEST_VALUE: Final = 100
_LONGEST_NAME: Final = 200
_SAMPLE: Final = Shipment(
    delivery_id="d", pipeline="p", destination="d", task="t", index=1, item_count=1, body=b"", slot_at=0.0
)


@dataclass(frozen=True, slots=True)
class NameTemplateSetting:
    """The template of a name.

    Attributes:
        has_folders: whether it may have slashes, as the keys of objects have.
    """

    has_folders: bool = False

    def checked(self, name: str, value: object) -> str:
        """Return it, if every name it can give is safe."""
        if not isinstance(value, str) or not value:
            raise InvalidSetting(name, value, "must be a name such as '{pipeline}-{task}-{index}.csv'")
        for literal, _, _ in _pieces(name, value):
            if not _LITERAL.fullmatch(literal.replace("/", "") if self.has_folders else literal):
                slash = ", '/'" if self.has_folders else ""
                raise InvalidSetting(
                    name, value, f"must have letters, digits, '.', '_', '-', '='{slash} and places only"
                )
        _check_places(name, value)
        name_of(name, value, _SAMPLE)
        return value


@dataclass(frozen=True, slots=True)
class UrlTemplateSetting:
    """The template of a URL: it has places in its path and its query, and none in its host."""

    def checked(self, name: str, value: object) -> str:
        """Return it, if every URL it can give leads to the same server."""
        if not isinstance(value, str) or not value:
            raise InvalidSetting(name, value, "must be a URL, such as 'https://example.org/reports'")
        places = list(_pieces(name, value))
        request_rules.check_url(name, "".join(literal + ("x" if place else "") for literal, place, _ in places))
        if "{" in urlsplit(value).netloc:
            raise InvalidSetting(name, value, "must have no places in its host")
        return value


def name_of(setting: str, template: str, shipment: Shipment) -> str:
    """Return the name of a shipment.

    Args:
        setting: what the template is called, for the error.
        template: the template.
        shipment: what is sent.

    Raises:
        InvalidSetting: this shipment cannot have such a name.
    """
    name = _filled(setting, template, shipment)
    if any(part.startswith(".") or not 0 < len(part) <= _LONGEST_NAME for part in name.split("/")):
        allowed = f"gives {name!r}: each part of a name must have 1 to {_LONGEST_NAME} characters and begin with no '.'"
        raise InvalidSetting(setting, template, allowed)
    return name


def url_of(setting: str, template: str, shipment: Shipment) -> str:
    """Return the URL of a shipment.

    Raises:
        InvalidSetting: this shipment cannot have such a URL.
    """
    return _filled(setting, template, shipment)


def temporary_name(name: str, attempt: int) -> str:
    """Return what a file is called while it is written: no two attempts write the same one, and none is left over."""
    return f".{name}.{attempt}.part"


def temporary_names(name: str, attempt: int) -> list[str]:
    """Return what this attempt and the ones before it, or the last of them, may have left."""
    return [temporary_name(name, each) for each in range(max(1, attempt - 20), attempt + 1)]


def safe_part(text: str) -> str:
    """Return a text as a part of a name: itself, or what is harmless of it and its hash."""
    kept = _UNSAFE.sub("_", text)
    if kept == text and 0 < len(text) <= _LONGEST_VALUE:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{kept[: _LONGEST_VALUE - 20]}-{digest[:16]}"


def _filled(setting: str, template: str, shipment: Shipment) -> str:
    return "".join(
        literal + ("" if place is None else _value(setting, template, shipment, place, spec))
        for literal, place, spec in _pieces(setting, template)
    )


def _value(setting: str, template: str, shipment: Shipment, place: str, spec: str) -> str:
    if place == "index":
        return format(shipment.index, spec)
    if place != "slot":
        return safe_part(getattr(shipment, place))
    if shipment.slot_at is None:
        raise InvalidSetting(setting, template, "needs a slot, and what is sent was not batched; remove {slot}")
    return datetime.fromtimestamp(shipment.slot_at, UTC).strftime(spec or _USUAL_TIME)


def _pieces(setting: str, template: str) -> Iterator[tuple[str, str | None, str]]:
    """Yield each literal text with the place behind it, if any, and how its value is written."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        raise InvalidSetting(setting, template, f"must have pairs of braces: {error}") from None
    for literal, place, spec, conversion in parsed:
        if place is not None and (place not in PLACES or conversion or not _fits(place, spec or "")):
            shown = f"{{{place}{f'!{conversion}' if conversion else ''}{f':{spec}' if spec else ''}}}"
            allowed = f"{shown} is no place: there are {', '.join(f'{{{each}}}' for each in PLACES)}"
            raise InvalidSetting(setting, template, f"{allowed}, such as {{index:03}} and {{slot:%Y%m%d%H%M}}")
        yield literal, place, spec or ""


def _fits(place: str, spec: str) -> bool:
    form = {"index": _NUMBER, "slot": _TIME}.get(place)
    return not spec if form is None else form.fullmatch(spec) is not None


def _check_places(setting: str, template: str) -> None:
    places = {place for _, place, _ in _pieces(setting, template)}
    if places.isdisjoint(_UNIQUE):
        needed = ", ".join(f"{{{each}}}" for each in _UNIQUE)
        raise InvalidSetting(setting, template, f"must have one of {needed}: each shipment needs a name of its own")
