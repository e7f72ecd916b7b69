# SPDX-License-Identifier: MIT
"""What an operation would find, before anything is done: for a dry run, for a question, for a refusal."""

from dataclasses import replace
from typing import NamedTuple

from redrive.cli import screen, telling, wording
from redrive.cli.changing import print_previews
from redrive.cli.exit_status import ExitStatus
from redrive.cli.ledgers import Desk, unread
from redrive.printable import one_line
from redrive.recovery import DryRun, Filter, Preview, Status, views
from redrive.recovery.operation import in_the_way
from redrive.recovery.states import ENDED


class Foreseen(NamedTuple):
    """What an operation would find.

    Attributes:
        chosen: what was asked for.
        found: what matches.
        previews: what would change about the first of them.
        sent: those that fit but were sent already and not heard of, if nothing else matches.
        waiting: failures that were not read, by queue.
        hint: a sentence about these.
        is_repeated: whether the same request was made before, with the same key.
    """

    chosen: Filter | list[str]
    found: DryRun
    previews: list[Preview]
    sent: DryRun | None
    waiting: dict[str, int]
    hint: str
    is_repeated: bool


async def foreseen(
    desk: Desk, chosen: Filter | list[str], found: DryRun, previews: list[Preview], key: str | None
) -> Foreseen:
    """Return what would be found, with all that a person has to know beside it."""
    sent = None
    if not found.matched and isinstance(chosen, Filter) and chosen.status == frozenset({Status.UNRESOLVED}):
        sent = await desk.recovery.dry_run(replace(chosen, status=frozenset({Status.RETRY_ISSUED})))
    waiting = await desk.waiting()
    is_repeated = key is not None and await desk.recovery.ledger.requested(key) is not None
    return Foreseen(chosen, found, previews, sent, waiting, unread(desk, waiting), is_repeated)


def meant(seen: Foreseen, many: int) -> str:
    """Return how many messages are meant, and of which time: an age is an instant by now."""
    span = wording.span(seen.chosen) if isinstance(seen.chosen, Filter) else ""
    return wording.count(many, "failed message") + (f" that failed {span}" if span else "")


def asked_for(found: DryRun, chosen: Filter | list[str]) -> DryRun:
    """Return what would be found, with those unknown ids only that somebody asked for."""
    if isinstance(chosen, Filter):
        return found
    return replace(found, unknown_ids=[each for each in found.unknown_ids if each in chosen])


def print_foreseen(seen: Foreseen, *, as_json: bool, verb: str) -> None:
    """Print what an operation would find."""
    chosen = seen.chosen if isinstance(seen.chosen, Filter) else None
    if as_json:
        screen.print_json(views.dry_run_view(seen.found, chosen, seen.previews, seen.waiting))
        return
    span = wording.span(seen.chosen) if isinstance(seen.chosen, Filter) else ""
    for line in telling.foreseen(seen.found, verb, span):
        screen.out().print(line, soft_wrap=True)
    if seen.sent is not None and seen.sent.holders:
        screen.hint(in_the_way(seen.sent.holders, again="--again"), "yellow")
    if seen.hint:
        screen.hint(seen.hint, "yellow")
    print_previews(seen.previews)


def check_any(seen: Foreseen) -> None:
    """Refuse what would do nothing."""
    found = seen.found
    if seen.is_repeated:
        return
    if found.matched:
        if not found.free and found.holders:
            raise screen.refusal(_held(found), ExitStatus.IN_THE_WAY)
        if found.unknown_ids:
            screen.hint(telling.unknown(found.unknown_ids), "yellow")
        if seen.hint:
            screen.hint(seen.hint, "yellow")
        return
    if found.unknown_ids:
        raise screen.refusal(
            f"no failed message has these ids: {wording.some(found.unknown_ids)}; see them: redrive failed list --json",
            ExitStatus.NOT_FOUND,
        )
    if seen.sent is not None and seen.sent.holders:
        raise screen.refusal(f"nothing is left to send: {_held(seen.sent)}", ExitStatus.NOTHING_CHOSEN)
    what = (isinstance(seen.chosen, Filter) and seen.chosen.written) or "status:unresolved"
    way_out = seen.hint or "see what there is: redrive failed groups"
    raise screen.refusal(f"no failed message matches {one_line(what)}; {way_out}", ExitStatus.NOTHING_CHOSEN)


def _held(found: DryRun) -> str:
    """Return which operations have the messages, and the way out."""
    first = found.holders[0]
    verb = "show" if first.state in ENDED else "watch"
    return f"{in_the_way(found.holders, again='--again')}\n  redrive operations {verb} {first.operation}"
