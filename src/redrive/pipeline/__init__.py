# SPDX-License-Identifier: MIT
"""Layer 4: staged pipelines, which **re-run** only what failed."""
