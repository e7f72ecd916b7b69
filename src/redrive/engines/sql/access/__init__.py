# SPDX-License-Identifier: MIT
"""The server's own store in SQL, once for all engines that are a database."""
