# SPDX-License-Identifier: MIT
"""The ledger of routes in SQL, once for all engines that are a database."""
