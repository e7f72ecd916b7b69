# SPDX-License-Identifier: MIT
"""Senders: where the events of routes go, one file for each kind."""
