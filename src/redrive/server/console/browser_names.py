# SPDX-License-Identifier: MIT
"""What the console's script and pages call what browsers send: cookies, and a header. None is a header of a message."""

from typing import Final

ZONE: Final = "redrive-zone"
"""The cookie with the reader's zone."""

THEME: Final = "redrive-theme"
"""The cookie with the theme; without it the system's."""

DENSITY: Final = "redrive-density"
"""The cookie that says how close rows are."""

FRAGMENT: Final = "redrive-fragment"
"""The header of a live update: it gets the page without the frame."""
