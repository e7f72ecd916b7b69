# SPDX-License-Identifier: MIT
"""Who requests something and why, and how far a command goes without asking."""

import getpass
import os
import socket
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from redrive.cli.options.connection import Yes
from redrive.cli.options.time import seconds

ACTOR_VARIABLE = "REDRIVE_ACTOR"

Actor = Annotated[str | None, typer.Option(metavar="TEXT", help=f"Who you are; ${ACTOR_VARIABLE}, or else user@host.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why; for the audit trail.")]
Detach = Annotated[bool, typer.Option("--detach", help="Only store the request; a running service does the work.")]
Wait = Annotated[
    str, typer.Option(metavar="TIME", help="After the last send, wait for results until none arrives for that long.")
]


def actor_name(given: str | None) -> str:
    """Return who makes a request: from the command, from the environment, or the user of this machine."""
    return given or os.environ.get(ACTOR_VARIABLE) or f"{getpass.getuser()}@{socket.gethostname()}"


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Who requests an operation, and why."""

    reason: Reason = ""
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Idempotency key: the same key is the same request.")
    ] = None
    actor: Actor = None

    @property
    def who(self) -> dict[str, Any]:
        """The arguments of ``Recovery`` that say who requests an operation, and why."""
        return {"actor": actor_name(self.actor), "reason": self.reason, "key": self.key}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How far a command goes: only a dry run, only the request, or all the work."""

    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done; nothing is read, stored or sent.")
    ] = False
    detach: Detach = False
    wait: Wait = "5s"
    yes: Yes = False

    @property
    def wait_s(self) -> float:
        """How long to wait for results, in seconds."""
        return seconds("wait", self.wait) or 0.0
