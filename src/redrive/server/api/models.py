# SPDX-License-Identifier: MIT
"""The models of the API's document: they say what is in a view. A view with a field that its model lacks is an error.

Views are made by ``redrive.broker.views`` and its siblings, for the command line and the API alike. A model changes
nothing about a view: it is what the document promises, and FastAPI holds every response against it.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from redrive.broker import DurationSetting, FlagSetting, JourneySetting, QueueSettings, TopicSettings, WholeSetting


class ViewModel(BaseModel):
    """The base of all models: nothing more than it says is in a view."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)


Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2031-05-04T09:30:00+00:00"])]
"""A time in a view: a text in ISO 8601, with its zone."""


class Problem(ViewModel):
    """What is wrong, and what to do about it (RFC 9457)."""

    type: str = Field(examples=["urn:redrive:error:queue-not-found"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["there is no queue 'orders'"])
    code: str = Field(description="Names the error for programs.", examples=["queue-not-found"])
    fix: str | None = Field(description="What to do about it.", examples=["declare it: PUT /api/v1/queues/orders"])


def settings_model(name: str, kind: type[QueueSettings | TopicSettings]) -> type[ViewModel]:
    """Return the model of settings in a view: all of them."""
    shape: dict[str, Any] = {
        each.name: (_type_of(each), Field(description=each.metadata["help"])) for each in fields(kind)
    }
    return create_model(name, __base__=ViewModel, **shape)


def stated_model(name: str, kind: type[QueueSettings | TopicSettings]) -> type[ViewModel]:
    """Return the model of settings in a request: those that it states, each within its bounds."""
    shape: dict[str, Any] = {
        each.name: (_type_of(each), Field(None, description=each.metadata["help"], **_bounds_of(each.metadata["kind"])))
        for each in fields(kind)
    }
    return create_model(name, __base__=ViewModel, **shape)


def stated(model: BaseModel) -> dict[str, Any]:
    """Return what a request states, and nothing that it leaves out."""
    return model.model_dump(exclude_unset=True)


_TYPES: Final[Mapping[type, Any]] = {
    DurationSetting: float,
    WholeSetting: int,
    FlagSetting: bool,
    JourneySetting: Literal["trouble", "all", "none"] | Annotated[float, Field(gt=0, le=1)],
}
"""The type of a setting in JSON, by its kind."""


def _type_of(setting: Any) -> Any:  # noqa: ANN401 - a dataclass's field, and a type
    kind = _TYPES[type(setting.metadata["kind"])]  # a KeyError at import: say what a new kind is in JSON
    return kind | None if setting.default is None else kind


def _bounds_of(kind: object) -> dict[str, Any]:
    if isinstance(kind, WholeSetting):
        return {"ge": kind.low, "le": kind.high}
    return {"gt": 0, "le": kind.longest} if isinstance(kind, DurationSetting) else {}
