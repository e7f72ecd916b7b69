# SPDX-License-Identifier: MIT
"""The provider of OpenID Connect at work: where it is, its keys, and what it says about a person.

Every request to it has a time limit, follows no redirect, and goes where the provider's own description says. Keys are
kept, and read again when an identity names one that is not known: providers change them.
"""

import asyncio
import base64
import hashlib
import json
import os
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import urlencode

from redrive.access.credentials import new_secret
from redrive.access.oidc import OidcSettings, is_near, name_of, rights_by_groups, verified
from redrive.access.records import Rights
from redrive.clock import Clock
from redrive.errors import InvalidSetting, ProviderUnavailable, SignInRequired
from redrive.printable import one_line

if TYPE_CHECKING:
    from httpx import AsyncBaseTransport
    from joserfc.jwk import KeySet

T = TypeVar("T")

_REQUEST_S: Final = 5.0
_ALL_S: Final = 12.0
_KNOWN_S: Final = 3_600.0
_KEYS_EVERY_S: Final = 30.0
_LARGEST: Final = 1_048_576
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class SignInIntent(Protocol):
    """What is kept while a person is at the provider: what it must repeat, and what proves that this server asked."""

    @property
    def nonce(self) -> str:
        """What the identity must repeat."""
        ...

    @property
    def verifier(self) -> str:
        """What proves that this server has asked."""
        ...


class Provider:
    """A provider of OpenID Connect.

    Args:
        settings: which one.
        public_url: where browsers reach this server.
        clock: where time comes from.
        transport: what carries requests instead of the network.

    Raises:
        InvalidSetting: browsers cannot come back, or the secret is not where it should be.
    """

    def __init__(
        self, settings: OidcSettings, public_url: str, clock: Clock, transport: "AsyncBaseTransport | None" = None
    ) -> None:
        if not public_url.startswith(("https://", "http://")):
            raise InvalidSetting("public_url", public_url, "must be set for oidc: browsers come back there")
        self._settings = settings
        self._clock = clock
        self._transport = transport
        self._secret = _secret(settings.client_secret)
        self._back = f"{public_url.rstrip('/')}/api/v1/session/provider/return"
        self._known: dict[str, Any] = {}
        self._known_at = 0.0
        self._keys: KeySet | None = None
        self._keys_at = 0.0
        self._asking = asyncio.Lock()

    async def address(self, state: str, intent: SignInIntent) -> str:
        """Return where a browser goes to sign in.

        Args:
            state: what the browser brings back.
            intent: what is kept meanwhile.

        Raises:
            ProviderUnavailable: the provider does not answer.
        """
        known = await self._in_time(self._discovered())
        challenge = base64.urlsafe_b64encode(hashlib.sha256(intent.verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._back,
            "scope": " ".join(self._settings.scopes),
            "state": state,
            "nonce": intent.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        at = str(known["authorization_endpoint"])
        return f"{at}{'&' if '?' in at else '?'}{urlencode(asked)}"

    async def person(self, code: str, intent: SignInIntent) -> tuple[str, Rights | None]:
        """Return who a code is for, and what they may; None: nothing.

        Raises:
            ProviderUnavailable: the provider does not answer.
            SignInRequired: the code, or what the provider gives for it, does not count.
        """
        return await self._in_time(self._person(code, intent))

    async def _person(self, code: str, intent: SignInIntent) -> tuple[str, Rights | None]:
        known = await self._discovered()
        answer = await self._exchanged(known, code, intent.verifier)
        identity = answer.get("id_token")
        if not isinstance(identity, str):
            raise SignInRequired("the provider gave no identity for this code")
        claims = await self._verified(known, identity, intent.nonce)
        wanted = (self._settings.name_claim, self._settings.groups_claim)
        if any(each not in claims for each in wanted) and "userinfo_endpoint" in known:
            claims = {**await self._more(known, answer, claims), **claims}
        return name_of(claims, self._settings), rights_by_groups(claims, self._settings)

    async def _exchanged(self, known: Mapping[str, Any], code: str, verifier: str) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._back,
            "client_id": self._settings.client_id,
            "code_verifier": verifier,
        }
        ways = known.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        more: dict[str, Any] = {}
        if self._secret and "client_secret_basic" in ways:
            more["auth"] = (self._settings.client_id, self._secret)
        elif self._secret:
            form["client_secret"] = self._secret
        status, answer = await self._asked("POST", str(known["token_endpoint"]), data=form, **more)
        if status != 200:
            said = one_line(answer.get("error_description") or answer.get("error") or f"status {status}", 200)
            raise SignInRequired(f"the provider does not take this code: {said}")
        return answer

    async def _verified(self, known: Mapping[str, Any], identity: str, nonce: str) -> dict[str, Any]:
        keys = await self._read_keys(known, at_least_every=_KNOWN_S)
        try:
            return verified(identity, keys, self._settings, nonce, self._clock.time())
        except SignInRequired:
            again = await self._read_keys(known, at_least_every=_KEYS_EVERY_S)
            if again is keys:
                raise
            return verified(identity, again, self._settings, nonce, self._clock.time())

    async def _more(
        self, known: Mapping[str, Any], answer: Mapping[str, Any], claims: Mapping[str, Any]
    ) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {answer.get('access_token', '')}"}
        status, found = await self._asked("GET", str(known["userinfo_endpoint"]), headers=headers)
        return found if status == 200 and found.get("sub") == claims["sub"] else {}

    # --- what is kept of the provider

    async def _discovered(self) -> dict[str, Any]:
        async with self._asking:
            if not self._known or not 0 <= self._clock.monotonic() - self._known_at < _KNOWN_S:
                at = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
                status, found = await self._asked("GET", at)
                self._check(status, found)
                self._known, self._known_at = found, self._clock.monotonic()
            return self._known

    def _check(self, status: int, found: Mapping[str, Any]) -> None:
        issuer = self._settings.issuer
        if status != 200 or found.get("issuer") != issuer:
            raise ProviderUnavailable(
                issuer, f"its description is not there (status {status}), or is of another issuer"
            )
        for name in _ENDPOINTS:
            at = found.get(name)
            if not isinstance(at, str) or not (at.startswith("https://") or is_near(at)):
                raise ProviderUnavailable(issuer, f"its description has no {name} with https")

    async def _read_keys(self, known: Mapping[str, Any], *, at_least_every: float) -> "KeySet":
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        async with self._asking:
            if self._keys is None or not 0 <= self._clock.monotonic() - self._keys_at < at_least_every:
                status, found = await self._asked("GET", str(known["jwks_uri"]))
                try:
                    self._keys = KeySet.import_key_set({"keys": _signing_keys(found)})
                except (JoseError, ValueError, KeyError, TypeError) as error:
                    problem = f"its keys cannot be read (status {status}): {error}"
                    raise ProviderUnavailable(self._settings.issuer, problem) from None
                self._keys_at = self._clock.monotonic()
            return self._keys

    # --- requests

    async def _in_time(self, work: Awaitable[T]) -> T:
        try:
            async with self._clock.timeout(_ALL_S):
                return await work
        except TimeoutError:
            raise ProviderUnavailable(self._settings.issuer, f"it has not answered for {_ALL_S:g} s") from None

    async def _asked(self, method: str, url: str, **more: Any) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of an answer; an empty one if it is none."""
        from httpx import AsyncClient, HTTPError, InvalidURL

        try:
            async with (
                AsyncClient(
                    timeout=_REQUEST_S, transport=self._transport, headers={"accept": "application/json"}
                ) as client,
                client.stream(method, url, **more) as response,
            ):
                body = b""
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > _LARGEST:
                        raise ProviderUnavailable(self._settings.issuer, "its answer is too large")
        except (HTTPError, InvalidURL, OSError) as error:
            raise ProviderUnavailable(
                self._settings.issuer, one_line(f"{type(error).__name__}: {error}", 300)
            ) from None
        return response.status_code, _object(body)


def new_intent() -> tuple[str, str, str]:
    """Return a state, a nonce and a verifier, 256 random bits each."""
    return new_secret(), new_secret(), new_secret()


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _signing_keys(found: Mapping[str, Any]) -> list[Any]:
    """Return the keys of a provider that may sign; one that is for encryption, or shared, may not."""
    keys = found.get("keys")
    if not isinstance(keys, list):
        return []
    return [
        each for each in keys if isinstance(each, dict) and each.get("use", "sig") == "sig" and each.get("kty") != "oct"
    ]


def _secret(where: str) -> str:
    kind, _, place = where.partition(":")
    try:
        found = (
            os.environ.get(place, "") if kind == "env" else Path(place).read_text("utf-8") if kind == "file" else "-"
        )
    except (OSError, UnicodeError) as error:
        raise InvalidSetting("oidc.client_secret", where, f"cannot be read: {error}") from None
    if not found.strip():
        raise InvalidSetting("oidc.client_secret", where, "must have the secret, and is empty")
    return found.strip() if where else ""
