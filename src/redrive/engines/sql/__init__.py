# SPDX-License-Identifier: MIT
"""What both databases share: scripts, and the SQL of each port written once."""
