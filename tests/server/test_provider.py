# SPDX-License-Identifier: MIT
"""Sign-in at a real provider of OpenID Connect, in this process, and everything that can be wrong about it."""

import asyncio
import base64
import json
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from redrive.access.oidc import OidcSettings
from redrive.access.store import SignInState
from redrive.errors import InvalidSetting, ProviderUnavailable, SignInRequired
from redrive.server import ServerSettings, create_app
from redrive.server.api.provider import local_page
from redrive.server.door import GuardedDoor
from redrive.server.provider import Provider
from redrive.server.settings import parse_server_settings
from redrive.testing import ManualClock
from tests.server.conftest import until_asleep

ISSUER = "http://localhost"
GROUPS = {"ops": "operator", "platform": "admin"}
OIDC = OidcSettings(issuer=ISSUER, client_id="redrive", client_secret="env:OIDC_TEST", groups=GROUPS)  # noqa: S106 - where it is
SETTINGS = ServerSettings(require_sign_in=True, public_url="http://127.0.0.1", oidc=OIDC)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the provider's own library will change
BEGIN, BACK = "/api/v1/session/provider", "/api/v1/session/provider/return"


class RealProvider(httpx.AsyncBaseTransport):
    """A real provider, called without a socket."""

    def __init__(self):
        from oidc_provider_mock import app

        self.browser = app(require_nonce=True).test_client()
        self.is_away = False

    def people(self, **claims):
        assert self.browser.put("/users/ann", json={"preferred_username": "ann", **claims}).status_code == 204

    def sign_in(self, location):
        """Do what a person does at the provider; return where the browser is sent."""
        at = urlsplit(location)
        answer = self.browser.post(f"{at.path}?{at.query}", data={"sub": "ann"})
        return answer.headers["location"]

    async def handle_async_request(self, request):
        if self.is_away:
            raise httpx.ConnectError("refused")
        body = await request.aread()
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        answer = await asyncio.to_thread(
            self.browser.open, request.url.path, method=request.method, data=body, headers=headers
        )
        return httpx.Response(answer.status_code, content=answer.data)


@pytest.fixture(autouse=True)
def the_secret_is_in_the_environment(monkeypatch):
    monkeypatch.setenv("OIDC_TEST", "s3cret")


@pytest.fixture
def provider():
    made = RealProvider()
    made.people(groups=["ops", "others"])
    return made


@pytest.fixture
def browser(desk, provider):
    """Return a browser at a server that knows the provider."""
    clock = desk.broker.clock

    def open_browser(settings=SETTINGS, at=None):
        known = Provider(settings.oidc, settings.public_url, at or clock, provider)
        app = create_app(desk, settings, GuardedDoor(desk.access, settings), provider=known)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("10.0.0.7", 1234))
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    return open_browser


async def signed_in(client, provider, **asked):
    begun = await client.get(BEGIN, params=asked)
    assert begun.status_code == 303, begun.text
    return await client.get(provider.sign_in(begun.headers["location"]))


async def test_a_person_signs_in_at_the_provider_and_out(browser, provider, desk):
    client = browser()
    back = await signed_in(client, provider, next="/failed?q=a")
    assert (back.status_code, back.headers["location"]) == (303, "/failed?q=a")
    who = (await client.get("/api/v1/session")).json()
    assert (who["name"], who["role"], who["kind"]) == ("oidc:ann", "operator", "session")
    assert (await client.delete("/api/v1/session", headers={"x-redrive-csrf": who["csrf"]})).status_code == 200
    assert (await client.get("/api/v1/session")).status_code == 401
    assert ("own.sign-in", "user:oidc:ann", "done") in [
        (each.action, each.subject, each.outcome) for each in await desk.recovery.trail()
    ]


async def test_another_server_takes_a_person_back_and_none_takes_them_twice(browser, provider):
    one, other = browser(), browser()
    begun = await one.get(BEGIN)
    back = provider.sign_in(begun.headers["location"])
    other.cookies = one.cookies
    assert (await other.get(back)).status_code == 303
    again = await one.get(back)
    assert (again.status_code, again.json()["code"]) == (401, "sign-in-required")


async def test_a_new_sign_in_has_a_new_session_and_ends_the_one_before(browser, provider, desk):
    client = browser()
    await signed_in(client, provider)
    before = client.cookies["redrive"]
    await signed_in(client, provider)
    assert client.cookies["redrive"] != before
    assert await desk.access.session_principal(before, "") is None


async def test_only_the_browser_that_began_can_end_it(browser, provider):
    mine, theirs = browser(), browser()
    begun = await mine.get(BEGIN)
    await theirs.get(BEGIN)
    refused = await theirs.get(provider.sign_in(begun.headers["location"]))
    assert (refused.status_code, "redrive" in theirs.cookies) == (401, False)


@pytest.mark.parametrize(
    "asked", [{"state": "wrong", "code": "x"}, {"code": "x"}, {}, {"state": "\udfff".encode("utf-8", "replace")}]
)
async def test_a_state_that_is_wrong_is_refused(browser, asked):
    client = browser()
    await client.get(BEGIN)
    assert (await client.get(BACK, params=asked)).json()["code"] == "sign-in-required"


async def test_a_refusal_of_the_provider_and_a_code_of_no_one_are_refused(browser):
    client = browser()
    for more in ({"error": "access_denied"}, {"code": "none"}, {}):
        state = parse_qs(urlsplit((await client.get(BEGIN)).headers["location"]).query)["state"][0]
        refused = await client.get(BACK, params={"state": state, **more})
        assert (refused.status_code, refused.json()["code"]) == (401, "sign-in-required")


async def test_who_is_in_no_group_with_a_role_is_refused_and_loses_what_was_open(browser, provider):
    client = browser()
    await signed_in(client, provider)
    provider.people(groups=["others"])
    refused = await signed_in(browser(), provider)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await client.get("/api/v1/session")).status_code == 401


async def test_another_group_counts_for_the_sessions_that_are_open(browser, provider):
    client = browser()
    await signed_in(client, provider)
    provider.people(groups="platform")
    await signed_in(browser(), provider)
    assert (await client.get("/api/v1/session")).json()["role"] == "admin"


async def test_a_provider_that_is_away_is_said_and_a_password_still_counts(browser, provider, desk):
    from redrive.access import rights_of

    client = browser()
    provider.is_away = True
    away = await client.get(BEGIN)
    assert (away.status_code, away.json()["code"]) == (503, "provider-unavailable")
    assert "name and password" in away.json()["fix"]
    await desk.access.add_user("bob", "correct horse battery", rights_of("viewer"))
    asked = {"name": "bob", "password": "correct horse battery"}
    assert (await client.post("/api/v1/session", json=asked)).status_code == 200


async def test_an_identity_that_has_ended_by_our_clock_is_refused(browser, provider, desk):
    late = ManualClock(start=desk.broker.clock.time() + 7_200)
    refused = await signed_in(browser(at=late), provider)
    assert (refused.status_code, "expired" in refused.json()["detail"]) == (401, True)


async def test_without_a_provider_there_is_none_to_sign_in_at(as_someone):
    assert (await as_someone().get("/session/provider")).json()["code"] == "sign-in-required"


# --- what the provider says, made by hand


KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
OTHER = RSAKey.generate_key(2048, {"kid": "two", "use": "sig"})
CLAIMS = {"iss": ISSUER, "aud": "redrive", "sub": "1", "nonce": "n", "preferred_username": "ann", "groups": ["ops"]}


def unsigned(claims):
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in claims]
    return f"{'.'.join(parts)}."


class Forged(httpx.AsyncBaseTransport):
    """A provider that says whatever a test wants."""

    def __init__(self):
        self.keys, self.identity, self.described, self.asked = [KEY], "", {}, []

    async def handle_async_request(self, request):
        path = request.url.path
        self.asked.append(path)
        if path.endswith("openid-configuration"):
            ends = {"authorization_endpoint": "/a", "token_endpoint": "/t", "jwks_uri": "/k"}
            found = {"issuer": ISSUER, **{name: f"{ISSUER}{at}" for name, at in ends.items()}, **self.described}
        elif path == "/k":
            found = KeySet(self.keys).as_dict()
        else:
            found = {"id_token": self.identity, "access_token": "a"}
        return httpx.Response(200, json=found)


@pytest.fixture
def forged():
    return Forged()


async def person(forged, clock=None, settings=OIDC, **claims):
    clock = clock or ManualClock()
    if not forged.identity:
        times = {"iat": clock.time(), "exp": clock.time() + 60}
        forged.identity = jwt.encode({"alg": "RS256", "kid": "one"}, {**CLAIMS, **times, **claims}, KEY)
    made = Provider(settings, "https://redrive.example.com", clock, forged)
    return await made.person("code", SignInState("", "n", "v", "/"))


async def test_an_identity_that_is_right_counts(forged):
    name, rights = await person(forged)
    assert (name, rights.role.value, rights.may_see_bodies) == ("oidc:ann", "operator", False)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"aud": ["redrive", "another"]},
        {"aud": ["redrive", "another"], "azp": "another"},
        {"nonce": "another"},
        {"nonce": None},
        {"iss": "http://elsewhere"},
        {"exp": 0},
        {"iat": 4_000_000_000},
        {"preferred_username": "a\nb"},
        {"preferred_username": ""},
        {"preferred_username": 7},
    ],
)
async def test_an_identity_that_is_wrong_is_refused(forged, claims):
    with pytest.raises(SignInRequired):
        await person(forged, **claims)


async def test_an_identity_without_a_signature_of_the_provider_is_refused(forged):
    now = ManualClock().time()
    claims = {**CLAIMS, "iat": now, "exp": now + 60}
    shared = OctKey.import_key(json.dumps(KEY.as_dict(private=False)))
    for identity in (
        unsigned([{"alg": "none"}, claims]),
        jwt.encode({"alg": "HS256"}, claims, shared),
        jwt.encode({"alg": "RS256", "kid": "one"}, claims, OTHER),
        "nonsense",
        "a.b.c",
    ):
        forged.identity = identity
        with pytest.raises(SignInRequired):
            await person(forged)


async def test_a_clock_may_differ_a_little(forged):
    clock = ManualClock()
    assert await person(forged, clock, exp=clock.time() - 50, iat=clock.time() + 50)
    forged.identity = ""
    with pytest.raises(SignInRequired):
        await person(forged, clock, exp=clock.time() - 70)


async def test_new_keys_of_the_provider_are_read_when_they_are_used_and_not_too_often(forged):
    clock = ManualClock()
    made = Provider(OIDC, "https://redrive.example.com", clock, forged)
    intent = SignInState("", "n", "v", "/")

    def identity(key, name):
        times = {"iat": clock.time(), "exp": clock.time() + 60}
        forged.identity = jwt.encode({"alg": "RS256", "kid": name}, {**CLAIMS, **times}, key)

    identity(KEY, "one")
    await made.person("code", intent)
    clock.advance(31)
    forged.keys = [OTHER]
    identity(OTHER, "two")
    await made.person("code", intent)
    assert forged.asked.count("/k") == 2
    identity(KEY, "one")
    with pytest.raises(SignInRequired):
        await made.person("code", intent)
    assert forged.asked.count("/k") == 2


@pytest.mark.parametrize(
    "described", [{"issuer": "http://other"}, {"token_endpoint": "http://example.com/t"}, {"jwks_uri": None}]
)
async def test_a_provider_that_describes_itself_wrongly_is_not_used(forged, described):
    forged.described = described
    with pytest.raises(ProviderUnavailable):
        await person(forged)


class Slow(httpx.AsyncBaseTransport):
    """A provider that never answers."""

    async def handle_async_request(self, request):
        await asyncio.Event().wait()


async def test_a_provider_that_does_not_answer_is_given_up():
    clock = ManualClock()
    made = Provider(OIDC, "https://redrive.example.com", clock, Slow())
    asking = asyncio.create_task(made.address("s", SignInState("", "n", "v", "/")))
    await until_asleep(clock)
    clock.advance(13)
    with pytest.raises(ProviderUnavailable, match="12 s"):
        await asking


def test_groups_give_the_highest_role_and_the_right_to_see():
    from redrive.access.oidc import rights_by_groups

    settings = OidcSettings(issuer=ISSUER, client_id="r", groups={"a": "viewer", "b": "admin"}, see_hidden=("a",))
    found = rights_by_groups({"groups": ["a", "b", 7]}, settings)
    assert (found.role.value, found.may_see_bodies) == ("admin", True)
    assert rights_by_groups({"groups": {"a": 1}}, settings) is None
    easy = OidcSettings(issuer=ISSUER, client_id="r", default_role="viewer")
    assert rights_by_groups({}, easy).role.value == "viewer"


@pytest.mark.parametrize("page", ["//evil.example", "/\\evil.example", "https://evil.example", "", "a", "/\r\nx", "/ä"])
def test_a_page_elsewhere_is_not_gone_to(page):
    assert local_page(page) == "/"


def test_the_settings_are_read_from_the_file(monkeypatch):
    text = (
        '[server]\npublic_url = "https://r.example.com"\n[server.oidc]\nissuer = "https://login.example.com"\n'
        'client_id = "redrive"\nclient_secret = "env:OIDC_SECRET"\n[server.oidc.groups]\nops = "operator"\n'
    )
    settings = parse_server_settings(text)
    assert settings.oidc.groups == {"ops": "operator"}
    with pytest.raises(InvalidSetting, match="is empty"):
        Provider(settings.oidc, settings.public_url, ManualClock())
    monkeypatch.setenv("OIDC_SECRET", "s3cret")
    Provider(settings.oidc, settings.public_url, ManualClock())


@pytest.mark.parametrize(
    "odd",
    [
        {"issuer": "http://login.example.com"},
        {"client_secret": "s3cret"},
        {"scopes": ["profile"]},
        {"groups": {"ops": "root"}},
        {"default_role": "root"},
        {"leeway": -1},
        {"client_id": ""},
    ],
)
def test_settings_that_make_no_sense_are_refused(odd):
    with pytest.raises(InvalidSetting) as refused:
        OidcSettings(**{"issuer": ISSUER, "client_id": "redrive", **odd})
    assert "s3cret" not in str(refused.value)
