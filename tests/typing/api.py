# SPDX-License-Identifier: MIT
"""Uses the public API the way people do; never run, only read by the type checkers."""
