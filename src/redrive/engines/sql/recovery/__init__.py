# SPDX-License-Identifier: MIT
"""The ledger in SQL, once for all engines that are a database."""
