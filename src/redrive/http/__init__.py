# SPDX-License-Identifier: MIT
"""HTTP for the layers that receive and send with it: the one server of a process, and what clients have in common."""

from redrive.http import client, listener, public_address, request_rules, signing, status
from redrive.http.request import HttpAnswer, HttpRequest, HttpServer
from redrive.http.server import SharedHttpServer
from redrive.http.status import StatusTableSetting

__all__ = [
    "HttpAnswer",
    "HttpRequest",
    "HttpServer",
    "SharedHttpServer",
    "StatusTableSetting",
    "client",
    "listener",
    "public_address",
    "request_rules",
    "signing",
    "status",
]
