# SPDX-License-Identifier: MIT
"""Signed requests, as https://www.standardwebhooks.com describes them. Pure: no I/O, no clock, no randomness."""

import base64
import binascii
import hashlib
import hmac
from typing import Final

from redrive.errors import InvalidSetting

_PREFIX: Final = "whsec_"
SECRET_FORM: Final = (
    "must be 'whsec_' and 24 to 64 random bytes in base64, or 'env:' and the name of a variable with that"  # noqa: S105 - no secret
)
"""What a secret must be."""


def signing_key(secret: str) -> bytes:
    """Return the key of a secret.

    Raises:
        InvalidSetting: it is none. The error does not show it.
    """
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_PREFIX) or not 24 <= len(key) <= 64:
        raise InvalidSetting("secret", "***", SECRET_FORM)
    return key


def secret_of(key: bytes) -> str:
    """Return the secret of a key."""
    return _PREFIX + base64.b64encode(key).decode()


def signature(key: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a request, as Standard Webhooks define it: of its id, its time and its body."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"
