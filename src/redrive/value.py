# SPDX-License-Identifier: MIT
"""The base class of immutable values. Pure: no I/O, no clock.

``@dataclass(frozen=True)`` says the same in fewer lines and is what the rest of Redrive uses. The retry layer cannot:
importing ``dataclasses`` costs more than the 10 ms that ``import redrive.retry`` may take altogether.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar, NoReturn, Self


class Value:
    """Compared by its fields, printed as its constructor call, never changed after construction.

    A subclass lists its fields in ``__slots__``, in the order and under the names of its constructor's parameters, and
    passes them to ``_fill`` when they are checked; those of its bases come last.
    """

    __slots__: "tuple[str, ...]" = ()
    __match_args__: "ClassVar[tuple[str, ...]]" = ()

    def __init_subclass__(cls) -> None:
        slots = [name for each in cls.__mro__ for name in each.__dict__.get("__slots__", ())]
        cls.__match_args__ = tuple(slots)  # type: ignore[misc]  # mypy wants a literal; this one is for all subclasses

    def _fill(self, *fields: object) -> None:
        for name, field in zip(self.__match_args__, fields, strict=True):
            object.__setattr__(self, name, field)

    def replace(self, **changes: object) -> "Self":
        """Return a copy with some fields changed, checked like a new one."""
        return type(self)(**{name: getattr(self, name) for name in self.__match_args__} | changes)

    def __setattr__(self, name: str, value: object) -> "NoReturn":
        raise AttributeError(f"{type(self).__name__} never changes; build another one with .replace({name}=...)")

    def __delattr__(self, name: str) -> "NoReturn":
        raise AttributeError(f"{type(self).__name__} never changes; {name} stays")

    def __setstate__(self, state: "dict[str, object] | tuple[dict[str, object] | None, dict[str, object]]") -> None:
        # copy and pickle restore attributes with setattr, which values refuse; a subclass may have a __dict__ as well
        for attributes in state if isinstance(state, tuple) else (state,):
            for name, field in (attributes or {}).items():
                object.__setattr__(self, name, field)

    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((type(self), self._fields()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__name__}({fields})"
