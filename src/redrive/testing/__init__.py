# SPDX-License-Identifier: MIT
"""Tools for tests that do not wait: a clock you move, a switch for all sleeping, pytest fixtures."""

__all__ = ["ManualClock", "PassingClock", "no_sleep"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redrive.testing.manual_clock import ManualClock, no_sleep
    from redrive.testing.passing_clock import PassingClock


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    # lazily: pytest imports this package at every start, for the plugin beside it
    if name in __all__:
        from redrive.testing import manual_clock, passing_clock

        return getattr(passing_clock if name == "PassingClock" else manual_clock, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
