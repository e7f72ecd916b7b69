# SPDX-License-Identifier: MIT
"""The OpenAPI document: what FastAPI says about the endpoints, made true.

Errors are ``application/problem+json``, which FastAPI cannot say of a model; and where the answer to one request names
something that another request takes, the document links the two.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from fastapi import FastAPI

from redrive.broker.views import View
from redrive.server.problems import MEDIA_TYPE

_LINKED: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    "declare-queue": (("get-queue", "name", "/name"), ("update-queue", "name", "/name")),
    "edit-failure": (("get-operation", "number", "/number"),),
    "get-failure": (("get-failure-body", "id", "/id"), ("edit-failure", "id", "/id")),
    "list-failures": (("get-failure", "id", "/0/id"), ("get-failure-body", "id", "/0/id")),
    "list-groups": (("get-group", "id", "/0/id"),),
    "list-operations": (("get-operation", "number", "/0/number"),),
    "list-queues": (("get-queue", "name", "/0/name"),),
    "request-operation": (
        ("get-operation", "number", "/number"),
        ("list-outcomes", "number", "/number"),
        ("pause-operation", "number", "/number"),
        ("resume-operation", "number", "/number"),
        ("cancel-operation", "number", "/number"),
        ("acknowledge-operation", "number", "/number"),
        ("change-operation", "number", "/number"),
    ),
}
"""For each operation, those that take something of its answer: the parameter, and where it is in the answer."""


def describe(app: FastAPI) -> None:
    """Let an application return the true document."""
    app.openapi = partial(_document, app, app.openapi)  # type: ignore[method-assign]  # as FastAPI documents it


def _document(app: FastAPI, made: Callable[[], View]) -> View:
    if app.openapi_schema is None:
        app.openapi_schema = _corrected(made())
    return app.openapi_schema


def _corrected(document: View) -> View:
    known = {found["operationId"] for methods in document["paths"].values() for found in methods.values()}
    for methods in document["paths"].values():
        for found in methods.values():
            for status, response in found["responses"].items():
                if status in ("4XX", "5XX"):
                    response["description"] = "What is wrong, and what to do about it."
                    response["content"] = {MEDIA_TYPE: next(iter(response["content"].values()))}
                elif links := _links(found["operationId"], known):
                    response["links"] = links
    return document


def _links(operation: str, known: set[str]) -> View:
    found: dict[str, Any] = {}
    for other, parameter, place in _LINKED.get(operation, ()):
        if other in known:
            found[other] = {"operationId": other, "parameters": {parameter: f"$response.body#{place}"}}
    return found
