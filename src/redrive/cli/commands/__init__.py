# SPDX-License-Identifier: MIT
"""The commands, one file for each noun."""
