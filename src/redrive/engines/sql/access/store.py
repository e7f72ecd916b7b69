# SPDX-License-Identifier: MIT
"""The server's own store of an engine that is a database: each verb is a script."""

from redrive.engines.sql.access import last_changes, redaction_rows, request_rows, token_rows, user_rows, view_rows
from redrive.engines.sql.verbs import SqlStore, joins, reads, writes


class SqlAccessStore(SqlStore):
    """What the server keeps for itself, in a database."""

    changes = reads(last_changes.changes)

    # --- tokens
    add_token = writes(token_rows.add_token)
    tokens = reads(token_rows.tokens)
    token_of = reads(token_rows.token_of)
    use_token = writes(token_rows.use_token)
    revoke_token = writes(token_rows.revoke_token)

    # --- requests
    begin_request = writes(request_rows.begin_request)
    finish_request = writes(request_rows.finish_request)
    forget_request = writes(request_rows.forget_request)
    doing_request = joins(request_rows.do_request)

    # --- users
    add_user = writes(user_rows.add_user)
    users = reads(user_rows.users)
    user_and_password = reads(user_rows.user_and_password)
    set_password = writes(user_rows.set_password)
    set_rights = writes(user_rows.set_rights)
    remove_user = writes(user_rows.remove_user)

    # --- redaction
    add_redaction = writes(redaction_rows.add_redaction)
    redactions = reads(redaction_rows.redactions)
    remove_redaction = writes(redaction_rows.remove_redaction)

    # --- sessions
    add_session = writes(user_rows.add_session)
    session_of = reads(user_rows.session_of)
    use_session = writes(user_rows.use_session)
    end_session = writes(user_rows.end_session)
    set_session_rights = writes(user_rows.set_session_rights)
    keep_sign_in = writes(user_rows.keep_sign_in)
    take_sign_in = writes(user_rows.take_sign_in)
    attempt = writes(user_rows.attempt)
    forgive = writes(user_rows.forgive)

    # --- saved views
    save_view = writes(view_rows.save_view)
    saved_views = reads(view_rows.saved_views)
    saved_view = reads(view_rows.saved_view)
    remove_view = writes(view_rows.remove_view)
