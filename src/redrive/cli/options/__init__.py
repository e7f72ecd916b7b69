# SPDX-License-Identifier: MIT
"""The options of commands, in groups that belong together."""
