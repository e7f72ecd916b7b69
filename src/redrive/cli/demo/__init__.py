# SPDX-License-Identifier: MIT
"""What ``redrive demo`` runs: the server, and a small shop whose messages fail in all five layers."""
