# SPDX-License-Identifier: MIT
"""``/attention`` and ``/figures``: what needs a person, and how things stand."""

from typing import TYPE_CHECKING, TypeAlias

from pydantic import Field

from redrive.attention import AttentionItem, Figures, views
from redrive.broker.views import View
from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.api.models import ViewModel
from redrive.server.api.record_models import record_model

if TYPE_CHECKING:  # they are made of the fields of the records
    AttentionItemModel: TypeAlias = ViewModel
    FiguresModel: TypeAlias = ViewModel
else:
    AttentionItemModel = record_model(AttentionItem)
    FiguresModel = record_model(Figures)


class AttentionModel(ViewModel):
    """What needs a person."""

    attention: list[AttentionItemModel] = Field(description="The most urgent first.")


api = Endpoints("overview")


@api.get("/attention", "attention.read", AttentionModel)
async def get_attention(caller: Caller) -> View:
    """Say what needs a person, in sentences, the most urgent first."""
    found = await caller.look(caller.desk.attention.items)
    return {"attention": [views.item_view(each) for each in found]}


@api.get("/figures", "attention.read", FiguresModel)
async def get_figures(caller: Caller) -> View:
    """Return the figures of an overview: what is unresolved, new, recovered, waiting, under way, and caught."""
    return views.figures_view(await caller.look(caller.desk.attention.figures))
