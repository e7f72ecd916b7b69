# SPDX-License-Identifier: MIT
"""``/redactions``: what is hidden in messages, beside what the server's file says."""

from typing import Annotated, Literal

from fastapi import Path
from pydantic import Field

from redrive.access import ACTIONS, RedactionInfo, check_grant
from redrive.access.redactions import infos_of_rules
from redrive.broker.views import View
from redrive.errors import RedactionNotFound
from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.api.models import Instant, ViewModel
from redrive.server.api.pages import LARGEST_NUMBER

api = Endpoints("redactions")

Kind = Literal["header", "pointer", "pattern"]


class RedactionAsked(ViewModel):
    """A rule to be added."""

    kind: Kind = Field(description="What it goes by.")
    value: str = Field(
        max_length=1_000,
        description="The name of a header, a place in a JSON body, or a pattern of RE2.",
        examples=["/card/number"],
    )


class RedactionModel(ViewModel):
    """A rule of redaction."""

    number: int | None = Field(description="Names it; null: it is in the server's file.", examples=[1])
    kind: Kind
    value: str
    created_by: str
    created_at: Instant | None


@api.get("/redactions", "redactions.read", list[RedactionModel])
async def list_redactions(caller: Caller) -> list[View]:
    """List what is hidden in messages: by the server's file, and by stored rules."""
    stored = await caller.look(caller.desk.access.redactions.rules)
    caller.hide_nothing()  # a rule may match itself
    return [each.view() for each in [*infos_of_rules(caller.desk.redaction.rules), *stored]]


@api.post("/redactions", "redactions.write", RedactionModel)
async def add_redaction(caller: Caller, asked: RedactionAsked) -> View:
    """Hide something from now on; a rule that is there already is returned, so the request may be repeated."""
    add = caller.desk.access.redactions.add
    made = await caller.change(
        f"redaction:{asked.kind}", lambda: add(asked.kind, asked.value, actor=caller.actor), reason="added"
    )
    caller.hide_nothing()
    return made.view()


@api.delete("/redactions/{number}", "redactions.write", RedactionModel)
async def remove_redaction(
    caller: Caller, number: Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="The rule's number.")]
) -> View:
    """Hide something no longer. Only for those who may see what is hidden."""

    async def remove() -> RedactionInfo:
        stored = await caller.desk.access.redactions.rules()
        if number not in {each.number for each in stored}:
            raise RedactionNotFound(number)
        check_grant(caller.principal, ACTIONS[caller.action], may_see_bodies=True)
        return await caller.desk.access.redactions.remove(number)

    removed = await caller.change(f"redaction:{number}", remove, reason="removed")
    caller.hide_nothing()
    return removed.view()
