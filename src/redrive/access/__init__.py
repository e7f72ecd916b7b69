# SPDX-License-Identifier: MIT
"""Who may do what: roles, actions, and those who ask."""

from redrive.access.principal import Principal, PrincipalKind
from redrive.access.redaction import HIDDEN, Redaction, RedactionRules
from redrive.access.roles import ACTIONS, Action, Reach, Role, Trail, check

__all__ = [
    "ACTIONS",
    "HIDDEN",
    "Action",
    "Principal",
    "PrincipalKind",
    "Reach",
    "Redaction",
    "RedactionRules",
    "Role",
    "Trail",
    "check",
]
