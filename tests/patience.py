# SPDX-License-Identifier: MIT
"""How long a test waits for what another process or thread does."""

PATIENCE_S = 120.0
"""Long, as a machine may be busy: it ends what hangs, and says nothing about speed. Pytest's own limit is longer."""
