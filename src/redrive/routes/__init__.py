# SPDX-License-Identifier: MIT
"""Layer 3: one event for many routes, and **replay** for the leg that failed."""
