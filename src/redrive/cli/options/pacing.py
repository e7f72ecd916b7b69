# SPDX-License-Identifier: MIT
"""How messages are sent: how many, how fast, where to and when."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from redrive.cli.exit_status import ExitStatus
from redrive.cli.options.connection import complete_queue
from redrive.cli.options.time import instant, seconds
from redrive.cli.output import console
from redrive.errors import RedriveError
from redrive.recovery import Canary, Transform

_PANEL = "How they are sent"


def _option(metavar: str, help_text: str, *names: str, **more: Any) -> Any:  # noqa: ANN401 - what typer's own function returns
    return typer.Option(*names, metavar=metavar, help=help_text, rich_help_panel=_PANEL, **more)


@dataclass(frozen=True, slots=True)
class PacingOptions:
    """How messages are sent."""

    limit: Annotated[int | None, _option("N", "How many at most, the oldest first.")] = None
    rate: Annotated[float | None, _option("N", "Messages a second to each queue.")] = None
    canary: Annotated[int | None, _option("N", "Send N first, and the rest only if they succeed.")] = None
    max_failures: Annotated[int | None, _option("N", "How many canaries may fail again; 0 by default.")] = None
    patience: Annotated[str | None, _option("TIME", "How long to wait for the canaries; 5m by default.")] = None
    to: Annotated[str | None, _option("QUEUE", "Send all of them there.", autocompletion=complete_queue)] = None
    again: Annotated[
        bool,
        typer.Option("--again", rich_help_panel=_PANEL, help="Also those sent before whose result is not known."),
    ] = False
    at: Annotated[str | None, _option("WHEN", "Begin then: 2026-11-01T22:00Z.")] = None
    in_: Annotated[str | None, _option("TIME", "Begin after that long: 2h.", "--in")] = None

    def how(self, transform: Transform | None) -> dict[str, Any]:
        """Return the arguments of ``Recovery.recover`` that say how messages are recovered."""
        return {
            "limit": self.limit,
            "rate": self.rate,
            "canary": self._canary(),
            "redirect": self.to,
            "again": self.again,
            "at": self._begin(),
            "transform": transform,
        }

    def _canary(self) -> Canary | None:
        if self.canary is None:
            for option, given in (("--max-failures", self.max_failures), ("--patience", self.patience)):
                if given is not None:
                    raise console.refusal(f"{option} needs --canary N; say how many", ExitStatus.NOT_UNDERSTOOD)
            return None
        patience = seconds("patience", self.patience or "5m") or 0.0
        try:
            return Canary(count=self.canary, max_failures=self.max_failures or 0, patience=patience)
        except RedriveError as error:
            raise console.failure(error) from None

    def _begin(self) -> datetime | float | None:
        if self.at is not None and self.in_ is not None:
            raise console.refusal("say either --at or --in, not both", ExitStatus.NOT_UNDERSTOOD)
        return seconds("in", self.in_) if self.at is None else instant("at", self.at)
