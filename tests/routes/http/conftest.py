# SPDX-License-Identifier: MIT
"""A site, an intake and a destination for each test."""

from tests.http.conftest import clock, destination, intake, site, small_site, timed_site

__all__ = ["clock", "destination", "intake", "site", "small_site", "timed_site"]
