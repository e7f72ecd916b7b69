# SPDX-License-Identifier: MIT
"""The ledger of pipelines in SQL, once for all engines that are a database."""
