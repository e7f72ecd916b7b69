# SPDX-License-Identifier: MIT
"""Journeys in SQL: the entries, and what the tables of all layers know of a message."""
