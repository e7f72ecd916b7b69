# SPDX-License-Identifier: MIT
"""Sign-in at a provider of OpenID Connect: its settings, what an identity must say, and who that is. Pure: no I/O.

::

    [server.oidc]
    issuer = "https://login.example.com/realms/shop"
    client_id = "redrive"
    client_secret = "env:REDRIVE_OIDC_SECRET"
    groups = { operators = "operator", platform = "admin" }
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from redrive import number
from redrive.access.records import PROVIDER_PREFIX, Rights, check_name, rights_of
from redrive.errors import InvalidSetting, SignInRequired, UnknownSetting

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""How an identity may be signed: with a key that only the provider has. ``none`` and shared secrets do not count."""

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_LONGEST_NAME: Final = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """Which provider signs people in, and what they may.

    Attributes:
        issuer: the provider's address, as it calls itself.
        client_id: what the provider calls this server.
        client_secret: ``env:NAME`` or ``file:/path``, where the secret is; empty: there is none, PKCE alone counts.
        scopes: what is asked of the provider.
        name_claim: the claim that has the person's name.
        groups_claim: the claim that has the person's groups: a list, or one text.
        groups: the role of each group; the highest counts.
        see_hidden: the groups whose people may see what redaction hides.
        default_role: the role of a person in none of these groups; empty: they are refused.
        leeway: how many seconds the provider's clock may differ.
    """

    issuer: str
    client_id: str
    client_secret: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    groups: Mapping[str, str] = field(default_factory=dict[str, str])
    see_hidden: tuple[str, ...] = ()
    default_role: str = ""
    leeway: int = 60

    def __post_init__(self) -> None:
        for name in ("issuer", "client_id", "client_secret", "name_claim", "groups_claim", "default_role"):
            is_needed = name not in ("client_secret", "default_role")
            if not isinstance(value := getattr(self, name), str) or (is_needed and not value):
                raise InvalidSetting(f"oidc.{name}", value, "must be a text")
        parts = urlsplit(self.issuer)
        if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and is_near(self.issuer))):
            raise InvalidSetting("oidc.issuer", self.issuer, "must be an address with https: https://login.example.com")
        if self.client_secret and not self.client_secret.startswith(("env:", "file:")):
            problem = "must say where the secret is: env:NAME, or file:/path; so it is not in this file"
            raise InvalidSetting("oidc.client_secret", "***", problem)
        number.whole("oidc.leeway", self.leeway, 0, 600)
        for name in ("scopes", "see_hidden"):
            object.__setattr__(self, name, _texts(f"oidc.{name}", getattr(self, name)))
        if "openid" not in self.scopes:
            raise InvalidSetting("oidc.scopes", list(self.scopes), "must have openid")
        if not isinstance(self.groups, Mapping):
            raise InvalidSetting("oidc.groups", self.groups, 'must be a table of roles: { operators = "operator" }')
        for role in (*self.groups.values(), *((self.default_role,) if self.default_role else ())):
            rights_of(role)
        object.__setattr__(self, "groups", MappingProxyType(dict(self.groups)))


def is_near(url: str) -> bool:
    """Say whether an address is on this machine, where TLS is not needed."""
    return urlsplit(url).hostname in _LOOPBACK


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise InvalidSetting(name, value, 'must be a list of texts: ["…"]')


def oidc_of(table: Mapping[str, Any]) -> OidcSettings:
    """Return the settings of a table.

    Raises:
        UnknownSetting: there is no setting of a name.
        InvalidSetting: a setting is missing, or has a value that is not allowed.
    """
    known = tuple(each.name for each in fields(OidcSettings))
    for name in table:
        if name not in known:
            raise UnknownSetting("oidc", name, known)
    for name in ("issuer", "client_id"):
        if name not in table:
            raise InvalidSetting("oidc", dict(table), f"must have {name}")
    return OidcSettings(**table)


def verified(identity: str, keys: "KeySet", settings: OidcSettings, nonce: str, now: float) -> dict[str, Any]:
    """Return the claims of an identity that is signed by the provider, for this server, for this sign-in, and current.

    Args:
        identity: the provider's ID token.
        keys: the provider's keys.
        settings: which provider, and what it calls this server.
        nonce: what it must repeat.
        now: the time.

    Raises:
        SignInRequired: something of that does not hold.
    """
    from joserfc import jwt
    from joserfc.errors import JoseError

    rules = jwt.JWTClaimsRegistry(
        now=int(now),
        leeway=settings.leeway,
        iss={"essential": True, "value": settings.issuer},
        aud={"essential": True, "value": settings.client_id},
        exp={"essential": True},
        iat={"essential": True},
        sub={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        claims = jwt.decode(identity, keys, algorithms=list(ALGORITHMS)).claims
        rules.validate(claims)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise SignInRequired(f"the provider's identity does not count ({_problem(error)})") from None
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if several else settings.client_id) != settings.client_id:
        raise SignInRequired("the provider's identity is for another program")
    return claims


def _problem(error: Exception) -> str:
    return str(getattr(error, "description", "") or getattr(error, "error", "") or error)[:200]


def name_of(claims: Mapping[str, Any], settings: OidcSettings) -> str:
    """Return the name of a person, as the audit trail has it.

    Raises:
        SignInRequired: the provider does not say it, or it cannot be one.
    """
    name = claims.get(settings.name_claim)
    try:
        if isinstance(name, str) and len(name) <= _LONGEST_NAME:
            return f"{PROVIDER_PREFIX}{check_name('name', name)}"
    except InvalidSetting:
        pass
    raise SignInRequired(f"the provider says no name that can be used in the claim {settings.name_claim!r}")


def rights_by_groups(claims: Mapping[str, Any], settings: OidcSettings) -> Rights | None:
    """Return what a person may, by their groups; None: nothing."""
    found = claims.get(settings.groups_claim)
    groups = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    names = {each for each in groups if isinstance(each, str)}
    roles = [settings.groups[each] for each in names if each in settings.groups]
    if settings.default_role:
        roles.append(settings.default_role)
    if not roles:
        return None
    best = rights_of(roles[0])
    for role in roles[1:]:
        best = best if best.role.includes(rights_of(role).role) else rights_of(role)
    return Rights(role=best.role, may_see_bodies=not names.isdisjoint(settings.see_hidden))
