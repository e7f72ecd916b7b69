# SPDX-License-Identifier: MIT
"""``/webhooks``: what is called when something needs a person. A secret is shown once."""

from typing import Annotated

from pydantic import Field

from redrive.broker.views import View
from redrive.notifications import EVENTS
from redrive.server.api.endpoint import Caller, Endpoints, Name
from redrive.server.api.models import Instant, ViewModel
from redrive.server.api.requests import Key, once

api = Endpoints("webhooks")


class WebhookAsked(ViewModel):
    """A webhook to be added."""

    name: str = Field(max_length=1_000, examples=["chat"])
    url: str = Field(max_length=2_000, examples=["https://chat.example.com/hooks/1"])
    events: list[Annotated[str, Field(max_length=100)]] = Field(
        list(EVENTS), max_length=100, description=f"What it is called for, some of: {', '.join(EVENTS)}."
    )
    secret: str | None = Field(None, max_length=200, description="What signs its requests; null: one is made.")


class WebhookModel(ViewModel):
    """A webhook, without its secret."""

    name: str = Field(examples=["chat"])
    url: str
    events: list[str]
    created_by: str
    created_at: Instant


class NewWebhookModel(WebhookModel):
    """A webhook that was just added."""

    secret: str = Field(description="What signs its requests; it cannot be shown again.")


class WebhookTestModel(ViewModel):
    """What came of a call that was made to try a webhook."""

    name: str
    delivered: bool
    problem: str


@api.get("/webhooks", "webhooks.read", list[WebhookModel])
async def list_webhooks(caller: Caller) -> list[View]:
    """List the webhooks, in order of their names."""
    return [each.view() for each in await caller.look(caller.desk.notifications.webhooks)]


@api.post("/webhooks", "webhooks.write", NewWebhookModel)
async def add_webhook(caller: Caller, asked: WebhookAsked, key: Key = None) -> View:
    """Add a webhook; the answer is the only one that shows its secret."""
    add = caller.desk.notifications.add
    call = once(caller, key, lambda: add(asked.name, asked.url, asked.events, secret=asked.secret, actor=caller.actor))
    made = await caller.change(f"webhook:{asked.name}", call)
    caller.hide_nothing()
    return {**made.info.view(), "secret": made.secret}


@api.post("/webhooks/{name}/test", "webhooks.write", WebhookTestModel)
async def test_webhook(caller: Caller, name: Name) -> View:
    """Call a webhook once, now, and say what came of it."""
    test = caller.desk.notifications.test
    return (await caller.change(f"webhook:{name}", lambda: test(name), reason="test")).view()


@api.delete("/webhooks/{name}", "webhooks.write", WebhookModel)
async def remove_webhook(caller: Caller, name: Name) -> View:
    """Remove a webhook; what waits for it is dropped."""
    remove = caller.desk.notifications.remove
    return (await caller.change(f"webhook:{name}", lambda: remove(name), reason="removed")).view()
