# SPDX-License-Identifier: MIT
"""The certificates that are trusted, read once: each new client of a test would read them for a tenth of a second."""

from functools import cache

from httpx._transports import default


def use_one_context():
    """Let all clients of this process share what checks certificates."""
    default.create_ssl_context = cache(default.create_ssl_context)
