# SPDX-License-Identifier: MIT
"""Redrive: five layers of retry on one durable broker.

==========  =========================================  ====================
layer       what it puts right                         package
==========  =========================================  ====================
retry       a call that failed                         ``redrive.retry``
redeliver   a message whose handler failed             ``redrive.broker``
replay      an event's leg that failed                 ``redrive.routes``
re-run      a pipeline stage that failed               ``redrive.pipeline``
recover     failures in bulk, by a person              ``redrive.recovery``
==========  =========================================  ====================
"""

__all__ = [
    "__version__",
    "connect",
    "connect_blocking",
    "open_attention",
    "open_history",
    "open_journeys",
    "open_pipeline",
    "open_pipelines",
    "open_recovery",
    "open_routes",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redrive.wiring import (
        connect,
        connect_blocking,
        open_attention,
        open_history,
        open_journeys,
        open_pipeline,
        open_pipelines,
        open_recovery,
        open_routes,
    )

    __version__: str


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    # lazily: a program that imports redrive.retry loads nothing else
    if name in __all__ and name != "__version__":
        from redrive import wiring

        return getattr(wiring, name)
    if name == "__version__":
        from importlib.metadata import version

        return version("redrive")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
