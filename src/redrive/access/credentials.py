# SPDX-License-Identifier: MIT
"""Secrets: made of 256 random bits, kept as hashes only. Passwords are kept with scrypt.

A random secret cannot be guessed, so SHA-256 is enough for it, and finding it is one look into an index. A password can
be guessed, so each guess must cost something: scrypt takes 32 MB and a tenth of a second.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final

from redrive.errors import InvalidSetting

_PREFIX: Final = "redrive_"
_COST: Final = 2**15
_BLOCK: Final = 8
_MEMORY: Final = 128 * _COST * _BLOCK + 2**20
_SHORTEST: Final = 12
_LONGEST: Final = 1_024

Random = Callable[[int], bytes]


def new_token(random: Random = secrets.token_bytes) -> tuple[str, str]:
    """Return the id of a new token, and the token: the id, and 256 random bits."""
    token_id = _PREFIX + base64.b32encode(random(5)).decode().lower()
    return token_id, f"{token_id}_{new_secret(random)}"


def new_secret(random: Random = secrets.token_bytes) -> str:
    """Return 256 random bits as a text."""
    return base64.urlsafe_b64encode(random(32)).decode().rstrip("=")


def hash_of(secret: str) -> str:
    """Return what is stored of a secret."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def csrf_token(session_secret: str) -> str:
    """Return what a page must send with every change: it is computed from the cookie, which no other page can read."""
    return hash_of(f"csrf {session_secret}")


def is_equal(one: str, other: str) -> bool:
    """Compare secrets in a time that does not depend on where they differ."""
    return hmac.compare_digest(one.encode(errors="surrogatepass"), other.encode(errors="surrogatepass"))


def check_password(password: object) -> str:
    """Return a password, if it may be one."""
    if isinstance(password, str) and _SHORTEST <= len(password) <= _LONGEST:
        return password
    raise InvalidSetting("password", "…", f"must have {_SHORTEST} to {_LONGEST:,} characters")


def hashed_password(password: str, random: Random = secrets.token_bytes) -> str:
    """Return what is stored of a password: the way it is hashed, a salt, and the hash. It takes a tenth of a second."""
    salt = random(16)
    return f"scrypt${_COST}${_BLOCK}${salt.hex()}${_scrypt(password, _COST, _BLOCK, salt).hex()}"


def is_password(password: str, stored: str) -> bool:
    """Say whether a password is the one that was stored; it takes as long whether it is or not."""
    if len(password) > _LONGEST:
        return False
    _, cost, block, salt, wanted = stored.split("$")
    found = _scrypt(password, int(cost), int(block), bytes.fromhex(salt))
    return hmac.compare_digest(found, bytes.fromhex(wanted))


def _scrypt(password: str, cost: int, block: int, salt: bytes) -> bytes:
    data = password.encode(errors="surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=cost, r=block, p=1, maxmem=_MEMORY, dklen=32)


NO_PASSWORD: Final = f"scrypt${_COST}${_BLOCK}${'00' * 16}${'00' * 32}"
"""What a guess for a user that does not exist is compared with, so that it takes as long."""
