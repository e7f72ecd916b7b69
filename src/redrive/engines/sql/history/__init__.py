# SPDX-License-Identifier: MIT
"""The history in SQL, written once for both databases."""
