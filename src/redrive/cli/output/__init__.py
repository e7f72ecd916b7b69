# SPDX-License-Identifier: MIT
"""What commands print: tables and sentences for people, JSON for scripts, errors that name the fix."""
