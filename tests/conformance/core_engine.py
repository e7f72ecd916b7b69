# SPDX-License-Identifier: MIT
"""An engine that can do what every engine can, and nothing more, as a foreign broker may."""

from redrive.broker import Capabilities
from redrive.broker.port import Engine

VERBS = [name for name in vars(Engine) if not name.startswith("_")]


class CoreEngine:
    """Another engine, of which only the verbs of the core are there.

    Args:
        inner: the engine.
        capabilities: what it says that it can do.
    """

    def __init__(self, inner, capabilities=None):
        self._inner = inner
        self.capabilities = capabilities or Capabilities(cancels_schedules=False, has_duplicate_detection=False)
        self.name = "Core"
        self.calls = []

    def __getattr__(self, verb):
        if verb not in VERBS:
            raise AttributeError(verb)
        call = getattr(self._inner, verb)

        def counted(*args, **how):
            self.calls.append(verb)
            return call(*args, **how)

        return counted
