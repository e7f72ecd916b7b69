# SPDX-License-Identifier: MIT
"""Redrive: five layers of retry on one durable broker.

==========  =========================================  ===================
layer       what it puts right                         package
==========  =========================================  ===================
retry       a call that failed                         ``redrive.retry``
redeliver   a message whose handler failed             to come
replay      a route's leg that failed                  to come
re-run      a pipeline stage that failed               to come
recover     failures in bulk, by a person              to come
==========  =========================================  ===================
"""

__all__ = ["__version__"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("redrive")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
