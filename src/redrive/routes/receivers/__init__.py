# SPDX-License-Identifier: MIT
"""Receivers: where the events of routes come from, one file for each kind."""
