# SPDX-License-Identifier: MIT
"""Filters: what events of routes go through, one file for each kind."""
