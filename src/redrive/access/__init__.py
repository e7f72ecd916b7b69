# SPDX-License-Identifier: MIT
"""Who may do what: roles, actions, and those who ask."""

from redrive.access import credentials, oidc, records, redaction, redaction_file, redactions, store
from redrive.access.access import Access, NewSession, NewToken
from redrive.access.principal import Principal, PrincipalKind
from redrive.access.records import RedactionInfo, RedactionKind, Rights, SessionInfo, TokenInfo, UserInfo, rights_of
from redrive.access.redaction import Redaction, RedactionRules
from redrive.access.redactions import Redactions
from redrive.access.roles import ACTIONS, Action, Reach, Role, Trail, check, check_grant
from redrive.access.saved_views import SavedView, SavedViews
from redrive.access.store import AccessStore, LastChanges

__all__ = [
    "ACTIONS",
    "Access",
    "AccessStore",
    "Action",
    "LastChanges",
    "NewSession",
    "NewToken",
    "Principal",
    "PrincipalKind",
    "Reach",
    "Redaction",
    "RedactionInfo",
    "RedactionKind",
    "RedactionRules",
    "Redactions",
    "Rights",
    "Role",
    "SavedView",
    "SavedViews",
    "SessionInfo",
    "TokenInfo",
    "Trail",
    "UserInfo",
    "check",
    "check_grant",
    "credentials",
    "oidc",
    "records",
    "redaction",
    "redaction_file",
    "redactions",
    "rights_of",
    "store",
]
