# SPDX-License-Identifier: MIT
"""``/session/provider``: sign in at a provider of OpenID Connect, with the authorization code flow and PKCE.

What is kept while a person is there is in the database, so that another server can take them back. It is used once, and
only by the browser that began.
"""

from typing import Annotated, Any, Final

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from redrive.access import NewSession
from redrive.access.credentials import hash_of, is_equal, new_secret
from redrive.access.store import SignInState
from redrive.errors import Forbidden, ProviderUnavailable, SignInRequired, TooManyAttempts
from redrive.printable import one_line
from redrive.server.api.endpoint import Endpoints
from redrive.server.api.session import set_cookie
from redrive.server.door import address_of, cookie_name
from redrive.server.provider import Provider, new_intent

_WITHIN_S: Final = 600.0
_WINDOW_S: Final = 900.0
_OF_ADDRESS: Final = 100
_BROWSER: Final = "redrive_sign_in"
_REDIRECTS: Final[dict[int | str, Any]] = {
    303: {"description": "Go on there.", "headers": {"Location": {"schema": {"type": "string"}}}},
}

api = Endpoints("session")


@api.public("/session/provider", None, "GET", status_code=303, response_class=Response, responses=_REDIRECTS)
async def begin_provider_session(
    request: Request,
    next: Annotated[str, Query(max_length=2_000, description="The page to go to in the end.")] = "/",  # noqa: A002 - as pages call it
) -> RedirectResponse:
    """Go to the provider of OpenID Connect, and sign in there."""
    state = request.app.state
    provider = _provider(request)
    address = address_of(request, state.proxies)
    if wait := await state.desk.access.store.attempt({f"provider:{address}": _OF_ADDRESS}, _WINDOW_S):
        raise TooManyAttempts(wait)
    given, nonce, verifier = new_intent()
    browser = new_secret()
    intent = SignInState(hash_of(browser), nonce, verifier, local_page(next))
    where = await provider.address(given, intent)
    await state.desk.access.store.keep_sign_in(hash_of(given), intent)
    response = RedirectResponse(where, 303)
    is_secure = state.settings.public_url.startswith("https://")
    response.set_cookie(
        _BROWSER, browser, max_age=int(_WITHIN_S), path="/", httponly=True, secure=is_secure, samesite="lax"
    )
    return response


@api.public("/session/provider/return", None, "GET", status_code=303, response_class=Response, responses=_REDIRECTS)
async def end_provider_sign_in(
    request: Request,
    state: Annotated[str, Query(max_length=200)] = "",
    code: Annotated[str, Query(max_length=4_000)] = "",
    error: Annotated[str, Query(max_length=1_000)] = "",
) -> RedirectResponse:
    """Come back from the provider; the answer has the session's cookie."""
    desk = request.app.state.desk
    address = address_of(request, request.app.state.proxies)
    try:
        intent = await _intent(request, state)
        new = await _begun(request, intent, code, error, address)
    except (SignInRequired, ProviderUnavailable, Forbidden) as problem:
        await desk.note_sign_in("oidc", address, f"refused: {problem}")
        raise
    await _leave(request, address)
    await desk.note_sign_in(new.info.user, address, "done")
    response = RedirectResponse(intent.goes_to, 303)
    response.delete_cookie(_BROWSER, path="/")
    set_cookie(response, new, request.app.state.settings)
    return response


async def _begun(request: Request, intent: SignInState, code: str, error: str, address: str) -> NewSession:
    """Begin the session of the person whom the provider names."""
    if error or not code:
        raise SignInRequired(f"the provider has refused: {one_line(error or 'no code', 200)}")
    name, rights = await _provider(request).person(code, intent)
    new: NewSession | None = await request.app.state.desk.access.begin_provider_session(name, rights, address)
    if new is None:
        fix = "ask for a group that [server.oidc] gives a role"
        raise Forbidden("own.sign-in", f"{name} is in no group that may use this server", fix)
    return new


async def _intent(request: Request, state: str) -> SignInState:
    """Return what was kept when this browser went to the provider, once."""
    kept = await request.app.state.desk.access.store.take_sign_in(hash_of(state), _WITHIN_S)
    browser = request.cookies.get(_BROWSER, "")
    if kept is None or not is_equal(hash_of(browser), kept.browser):
        raise SignInRequired("this sign-in was not begun here, was used before, or has taken too long; begin again")
    return SignInState(*kept)


async def _leave(request: Request, address: str) -> None:
    """End the session that the browser had before."""
    access = request.app.state.desk.access
    if secret := request.cookies.get(cookie_name(request.app.state.settings)):
        before = await access.session_principal(secret, address)
        if before is not None:
            await access.sign_out(before.key)


def _provider(request: Request) -> Provider:
    found: Provider | None = request.app.state.provider
    if found is None:
        raise SignInRequired("this server knows no provider to sign in at: [server.oidc] in redrive.toml names one")
    return found


def local_page(path: str) -> str:
    """Return a page of this server; what leads elsewhere is replaced by the first page. Pure."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and path.isascii()
    return path if is_local else "/"
