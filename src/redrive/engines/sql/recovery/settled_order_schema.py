# SPDX-License-Identifier: MIT
"""The index that lists resolved and archived messages in the order of their last failures."""

SETTLED_ORDER = """
CREATE INDEX @_failures_settled_newest ON @.failures (status, failed_at, number) WHERE status > 2;
"""
