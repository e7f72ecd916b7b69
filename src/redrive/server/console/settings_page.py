# SPDX-License-Identifier: MIT
"""``/settings``: tokens, people, what is hidden, webhooks, redirects; zone, theme and rows of one's own browser.

Every change is one of the API, asked in its own action. What is refused comes back as the page with the sentence, and
with what was typed, except for a password. A list that the caller may not read is not asked for.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import wraps
from http import HTTPStatus
from typing import Any, Final

from fastapi.responses import RedirectResponse

from redrive.access import Role
from redrive.broker.views import View
from redrive.errors import InvalidRequest, RedriveError
from redrive.history.views import retention_view
from redrive.notifications import EVENTS
from redrive.server.api.endpoint import Caller, KnownCaller, Name
from redrive.server.api.redactions import RedactionAsked, add_redaction, list_redactions, remove_redaction
from redrive.server.api.tokens import RightsAsked, TokenAsked, create_token, list_tokens, revoke_token
from redrive.server.api.upkeep import RedirectAsked, add_redirect, list_redirects, remove_redirect
from redrive.server.api.users import (
    PasswordAsked,
    UserAsked,
    add_user,
    change_password,
    change_rights,
    list_users,
    remove_user,
)
from redrive.server.api.webhooks import WebhookAsked, add_webhook, list_webhooks, remove_webhook, test_webhook
from redrive.server.console.browser_names import DENSITY, THEME, ZONE
from redrive.server.console.forms import Form, Posted, Poster, model_of
from redrive.server.console.jump import KEYS
from redrive.server.console.pages import Function, Pages, Reply
from redrive.server.console.shell import refusal
from redrive.server.console.text_formats import zone_of
from redrive.server.problems import problem_of

pages = Pages()

_PAGE: Final = "/settings"
_TEMPLATE: Final = "settings.html"
_YEAR_S: Final = 31_536_000
_DAY: Final = timedelta(days=1)
_SAID_HERE: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)
_OWN: Final = {ZONE: None, THEME: ("light", "dark"), DENSITY: ("compact",)}


def _part(name: str) -> Callable[[Function], Function]:
    """Declare which part of the page a form is in: if it is refused, the page comes back with the reason."""

    def declare(function: Function) -> Function:
        @wraps(function)
        async def posted(*, caller: KnownCaller, **given: Any) -> Any:  # noqa: ANN401 - as the form
            try:
                return await function(caller=caller, **given)
            except RedriveError as error:
                problem = problem_of(error)
                if problem["status"] not in _SAID_HERE:
                    raise
                typed = {each: text for each, text in caller.request.state.form.items() if each != "password"}
                said = {"problem": problem, "typed": {name: typed}}
                return Reply(_TEMPLATE, {**await _view(caller), **said}, problem["status"])

        return posted

    return declare


@pages.get("/settings", "own.read", _TEMPLATE, topics=())
async def show_settings(caller: Caller) -> View:
    """Show the settings that the caller may see."""
    return await _view(caller)


@pages.post("/settings/own", "own.change")
@_part("own")
async def change_own(caller: Poster, form: Posted) -> RedirectResponse:
    """Keep the zone, the theme and the height of rows in cookies of this browser."""
    zone = form.text("zone", "UTC")
    if zone != "UTC" and str(zone_of(zone)) != zone:
        raise InvalidRequest("zone", f"{zone!r} is no time zone; write one such as Europe/Berlin")
    secure = caller.request.url.scheme == "https"
    response = RedirectResponse(_PAGE, 303)
    for name, allowed in _OWN.items():
        value = zone if allowed is None else form.text(name.rpartition("-")[2])
        if allowed is None or value in allowed:
            response.set_cookie(name, value, max_age=_YEAR_S, path="/", samesite="lax", secure=secure)
        else:
            response.delete_cookie(name, path="/")
    return response


# --- tokens and people


@pages.post("/settings/tokens", "tokens.write")
@_part("tokens")
async def make_token(caller: Poster, form: Posted) -> Reply:
    """Make a token, and show it once."""
    days = form.number("days")
    lasts = None if days is None else days * _DAY.total_seconds()
    asked = model_of(TokenAsked, name=form.text("name"), expires_in=lasts, **_rights(form))
    made = await caller.ask(create_token, asked=asked, key=form.key)
    return Reply(_TEMPLATE, {**await _view(caller), "new_token": made["token"], "new_name": made["name"]})


@pages.post("/settings/tokens/{token}/revoke", "tokens.write")
@_part("tokens")
async def end_token(caller: Poster, token: Name) -> str:
    """Revoke a token."""
    await caller.ask(revoke_token, token=token)
    return f"{_PAGE}#tokens"


@pages.post("/settings/users", "users.write")
@_part("users")
async def new_user(caller: Poster, form: Posted) -> str:
    """Add a person."""
    asked = model_of(UserAsked, name=form.text("name"), password=form.get("password", ""), **_rights(form))
    await caller.ask(add_user, asked=asked, key=form.key)
    return f"{_PAGE}#users"


@pages.post("/settings/users/{name}/password", "users.write")
@_part("users")
async def renew_password(caller: Poster, form: Posted, name: Name) -> str:
    """Give a person another password."""
    asked = model_of(PasswordAsked, password=form.get("password", ""))
    await caller.ask(change_password, name=name, asked=asked)
    return f"{_PAGE}#users"


@pages.post("/settings/users/{name}/rights", "users.write")
@_part("users")
async def renew_rights(caller: Poster, form: Posted, name: Name) -> str:
    """Change what a person may do."""
    await caller.ask(change_rights, name=name, asked=model_of(RightsAsked, **_rights(form)))
    return f"{_PAGE}#users"


@pages.post("/settings/users/{name}/remove", "users.write")
@_part("users")
async def end_user(caller: Poster, name: Name) -> str:
    """Remove a person."""
    await caller.ask(remove_user, name=name)
    return f"{_PAGE}#users"


# --- what is hidden, webhooks, redirects


@pages.post("/settings/redactions", "redactions.write")
@_part("redactions")
async def new_redaction(caller: Poster, form: Posted) -> str:
    """Hide something from now on."""
    await caller.ask(add_redaction, asked=model_of(RedactionAsked, kind=form.text("kind"), value=form.text("value")))
    return f"{_PAGE}#redactions"


@pages.post("/settings/redactions/remove", "redactions.write")
@_part("redactions")
async def end_redaction(caller: Poster, form: Posted) -> str:
    """Hide something no longer."""
    number = form.whole("number")
    if number is None:
        raise InvalidRequest("number", "say which rule")
    await caller.ask(remove_redaction, number=number)
    return f"{_PAGE}#redactions"


@pages.post("/settings/webhooks", "webhooks.write")
@_part("webhooks")
async def new_webhook(caller: Poster, form: Posted) -> Reply:
    """Add a webhook, and show its secret once."""
    asked = model_of(
        WebhookAsked,
        name=form.text("name"),
        url=form.text("url"),
        events=list(filter(None, form.all("events"))) or [*EVENTS],
    )
    made = await caller.ask(add_webhook, asked=asked, key=form.key)
    return Reply(_TEMPLATE, {**await _view(caller), "new_secret": made["secret"], "new_name": made["name"]})


@pages.post("/settings/webhooks/{name}/test", "webhooks.write")
@_part("webhooks")
async def call_webhook(caller: Poster, name: Name) -> Reply:
    """Call a webhook once, and say what came of it."""
    tried = await caller.redaction.shown(await caller.ask(test_webhook, name=name))
    return Reply(_TEMPLATE, {**await _view(caller), "tried": tried})


@pages.post("/settings/webhooks/{name}/remove", "webhooks.write")
@_part("webhooks")
async def end_webhook(caller: Poster, name: Name) -> str:
    """Remove a webhook."""
    await caller.ask(remove_webhook, name=name)
    return f"{_PAGE}#webhooks"


@pages.post("/settings/redirects", "redirects.change")
@_part("redirects")
async def new_redirect(caller: Poster, form: Posted) -> str:
    """Send what is recovered for a queue to another one; without another, no longer."""
    queue, to = form.text("queue"), form.text("to")
    if not queue:
        raise InvalidRequest("queue", "say which queue")
    if to:
        await caller.ask(add_redirect, queue=queue, asked=model_of(RedirectAsked, to=to))
    else:
        await caller.ask(remove_redirect, queue=queue)
    return f"{_PAGE}#redirects"


# --- inside


def _rights(form: Form) -> dict[str, Any]:
    queues = [each for each in form.text("queues").replace(",", " ").split() if each]
    return {"role": form.text("role", "viewer"), "queues": queues or None, "may_see_bodies": "bodies" in form}


async def _view(caller: KnownCaller) -> View:
    """Return what the caller may see; a list that they may not is None."""

    async def seen(action: str, endpoint: Callable[..., Awaitable[list[View]]]) -> list[View] | None:
        return None if refusal(caller.principal, action) else await caller.ask(endpoint)

    lists = {
        "tokens": await seen("tokens.read", list_tokens),
        "users": await seen("users.read", list_users),
        "webhooks": await seen("webhooks.read", list_webhooks),
        "redirects": await seen("redirects.read", list_redirects),
    }
    shown = await caller.redaction.shown(lists)
    caller.hide_nothing()  # a rule may match itself, and a secret that is shown once must be whole
    return {
        **shown,
        "redactions": await seen("redactions.read", list_redactions),
        "retention": retention_view(await caller.look(caller.desk.history.retention, narrowed=True)),
        "roles": [each.value for each in Role],
        "events": list(EVENTS),
        "keys": KEYS,
        "may_grant": caller.principal.may_see_bodies,
        "typed": {},
        "problem": None,
        "new_token": "",
        "new_secret": "",
        "new_name": "",
        "tried": None,
    }
