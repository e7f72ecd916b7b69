# SPDX-License-Identifier: MIT
"""Webhooks in SQL, once for all engines that are a database."""
