# SPDX-License-Identifier: MIT
"""``/session``: sign in with name and password, see who one is, sign out."""

from typing import Final

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from redrive.access import Access, NewSession, Principal
from redrive.access.credentials import csrf_token
from redrive.broker.views import View
from redrive.errors import SignInRequired, TooManyAttempts
from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.api.models import ViewModel
from redrive.server.door import address_of, cookie_name
from redrive.server.settings import ServerSettings

PUBLIC: Final = "sign-in"
"""The action of an endpoint for those who have not signed in yet; there is one."""

api = Endpoints("session")


class Credentials(ViewModel):
    """A name and a password."""

    name: str = Field(max_length=1_000)
    password: str = Field(max_length=2_000)


class WhoModel(ViewModel):
    """Who asks, and what they may."""

    name: str = Field(examples=["ann"])
    kind: str = Field(description="How it is known who they are: local, token, session, proxy.")
    role: str = Field(examples=["operator"])
    queues: list[str] | None = Field(description="The queues that they are limited to; null: no limit.")
    may_see_bodies: bool
    csrf: str | None = Field(description="What a page sends in X-Redrive-CSRF with every change; null: no session.")


class SignedOut(ViewModel):
    """A session that has ended."""

    ended: bool


@api.get("/session", "own.read", WhoModel)
async def get_session(caller: Caller, request: Request) -> View:
    """Return who asks, and what they may."""

    async def who() -> View:
        secret = request.cookies.get(cookie_name(request.app.state.settings))
        is_session = caller.principal.kind.value == "session" and secret is not None
        return who_view(caller.principal, csrf_token(secret) if is_session and secret is not None else None)

    return await caller.look(who)


@api.delete("/session", "own.change", SignedOut)
async def end_session(caller: Caller, request: Request, response: Response) -> View:
    """Sign out; a token stays as it is."""

    async def end() -> None:
        if caller.principal.kind.value == "session":
            await caller.desk.access.sign_out(caller.principal.key)

    await caller.change("session", end)
    response.delete_cookie(cookie_name(request.app.state.settings), path="/")
    return {"ended": True}


@api.public("/session", WhoModel)
async def begin_session(request: Request, given: Credentials) -> JSONResponse:
    """Sign in with name and password; the answer has the session's cookie.

    Whatever is wrong, the answer is the same. After ten attempts within a quarter of an hour an account has to wait.
    """
    state = request.app.state
    settings: ServerSettings = state.settings
    address = address_of(request, state.proxies)
    try:
        new = await state.desk.access.sign_in(given.name, given.password, address)
    except (SignInRequired, TooManyAttempts) as error:
        await state.desk.note_sign_in(given.name, address, f"refused: {error.code}")
        raise
    await state.desk.note_sign_in(new.info.user, address, "done")
    principal = await state.desk.access.session_principal(new.secret, address)
    response = JSONResponse(who_view(principal, csrf_token(new.secret)))
    set_cookie(response, new, settings)
    return response


def who_view(principal: Principal, csrf: str | None) -> View:
    """Return who asks, as JSON."""
    return {
        "name": principal.name,
        "kind": principal.kind.value,
        "role": principal.role.value,
        "queues": None if principal.queues is None else list(principal.queues),
        "may_see_bodies": principal.may_see_bodies,
        "csrf": csrf,
    }


def set_cookie(response: Response, new: NewSession, settings: ServerSettings) -> None:
    """Give a browser the cookie of a session: no script can read it, and no other site can send it with a change."""
    response.set_cookie(
        cookie_name(settings),
        new.secret,
        max_age=int(Access.IDLE_S),
        path="/",
        httponly=True,
        secure=settings.public_url.startswith("https://"),
        samesite="lax",
    )
