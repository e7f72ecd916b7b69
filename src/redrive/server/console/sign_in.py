# SPDX-License-Identifier: MIT
"""``/login``: one form that never says which half was wrong; and signing out."""

from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from redrive.error_codes import statuses_of
from redrive.errors import RedriveError, SignInRequired, TooManyAttempts
from redrive.server.api.provider import local_page
from redrive.server.api.session import Credentials, begin_session, end_session
from redrive.server.console.browser_names import THEME
from redrive.server.console.forms import Poster, form_of, model_of
from redrive.server.console.pages import Pages, moment_of
from redrive.server.console.template_environment import render

pages = Pages()

Next = Annotated[str, Query(max_length=2_000, description="The page to go to in the end.")]


@pages.public("/login")
async def show_login(request: Request, next: Next = "/") -> Response:  # noqa: A002 - as addresses call it
    """Show the form."""
    return _form(request, local_page(next))


@pages.public("/login", "POST")
async def sign_in(request: Request) -> Response:
    """Sign in, and go to the page that was wanted."""
    form = await form_of(request)
    goes_to = local_page(form.get("next", "/"))
    given = model_of(Credentials, name=form.get("name", "").strip(), password=form.get("password", ""))
    try:
        answer = await begin_session(request, given)
    except (SignInRequired, TooManyAttempts) as error:
        return _form(request, goes_to, error, given.name)
    response = RedirectResponse(goes_to, 303)
    response.headers["set-cookie"] = answer.headers["set-cookie"]
    return response


@pages.post("/logout", "own.change")
async def sign_out(caller: Poster) -> Response:
    """Sign out."""
    response = RedirectResponse("/login", 303)
    await caller.ask(end_session, request=caller.request, response=response)
    return response


def _form(request: Request, goes_to: str, error: RedriveError | None = None, name: str = "") -> Response:
    theme = request.cookies.get(THEME, "")
    context = {
        "goes_to": goes_to,
        "problem": "" if error is None else f"{str(error).partition(';')[0]}.",  # the rest is for programs
        "name": name,
        "has_provider": request.app.state.provider is not None,
        "theme": theme if theme in ("light", "dark") else "",
    }
    status = 200 if error is None else statuses_of(error.code).http_status
    return HTMLResponse(render("login.html", context, moment_of(request)), status)
