# SPDX-License-Identifier: MIT
"""``/tokens``: the tokens of programs. A new one is shown once; what is kept of it is a hash."""

from typing import Annotated

from fastapi import Query
from pydantic import Field

from redrive import duration
from redrive.access import ACTIONS, NewToken, Rights, check_grant, rights_of
from redrive.broker.views import View
from redrive.server.api.endpoint import Caller, Endpoints, Name
from redrive.server.api.models import Instant, ViewModel
from redrive.server.api.requests import Key, once

api = Endpoints("tokens")

EvenLast = Annotated[bool, Query(description="It is meant, even if no admin is left then.")]


class RightsAsked(ViewModel):
    """What a token or a user may do."""

    role: str = Field("viewer", max_length=100, examples=["operator"])
    queues: list[Annotated[str, Field(min_length=1, max_length=1_000)]] | None = Field(
        None, max_length=1_000, description="Limit it to these queues; orders.* is several.", examples=[["orders"]]
    )
    may_see_bodies: bool = Field(default=False, description="May see what redaction hides.")


class TokenAsked(RightsAsked):
    """A token to be made."""

    name: str = Field(max_length=1_000, description="What it is for.", examples=["ci"])
    expires_in: float | None = Field(
        None, gt=0, le=duration.LONGEST, description="How many seconds it lasts; null: until it is revoked."
    )


class TokenModel(ViewModel):
    """A token, without its secret."""

    id: str = Field(examples=["redrive_abcdefgh"])
    name: str
    role: str
    queues: list[str] | None
    may_see_bodies: bool
    created_by: str
    created_at: Instant
    expires_at: Instant | None
    used_at: Instant | None = Field(description="When it was last used, to a minute.")
    revoked_at: Instant | None


class NewTokenModel(TokenModel):
    """A token that was just made."""

    token: str = Field(description="The token; it cannot be shown again.")


def granted(caller: Caller, asked: RightsAsked) -> Rights:
    """Return the rights that a caller wants to give, if they may."""
    check_grant(caller.principal, ACTIONS[caller.action], may_see_bodies=asked.may_see_bodies)
    return rights_of(asked.role, asked.queues, may_see_bodies=asked.may_see_bodies)


@api.get("/tokens", "tokens.read", list[TokenModel])
async def list_tokens(caller: Caller) -> list[View]:
    """List all tokens, the newest first, also those that have ended."""
    return [each.view() for each in await caller.look(caller.desk.access.tokens)]


@api.post("/tokens", "tokens.write", NewTokenModel)
async def create_token(caller: Caller, asked: TokenAsked, key: Key = None) -> View:
    """Make a token; the answer is the only one that shows it."""

    async def create() -> NewToken:
        rights = granted(caller, asked)
        return await caller.desk.access.create_token(
            asked.name, rights, expires_in=asked.expires_in, actor=caller.actor
        )

    made = await caller.change(f"token:{asked.name}", once(caller, key, create))
    caller.hide_nothing()
    return {**made.info.view(), "token": made.secret}


@api.delete("/tokens/{token}", "tokens.write", TokenModel)
async def revoke_token(caller: Caller, token: Name, even_last: EvenLast = False) -> View:  # noqa: FBT002 - FastAPI passes it by name
    """End a token, at once. The last admin is kept, unless it is said that it is meant."""
    revoke = caller.desk.access.revoke_token
    return (await caller.change(f"token:{token}", lambda: revoke(token, even_last=even_last))).view()
