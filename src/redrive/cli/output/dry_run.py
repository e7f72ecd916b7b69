# SPDX-License-Identifier: MIT
"""What an operation would find: for a dry run, for the question before it starts, for a refusal."""

from dataclasses import dataclass, replace

from rich.text import Text

from redrive.cli.exit_status import ExitStatus
from redrive.cli.facades import has_history, open_history
from redrive.cli.open import OpenRecovery
from redrive.cli.output import console
from redrive.cli.output.operation_detail import unknown_ids_text
from redrive.cli.output.previews import print_previews
from redrive.cli.output.sentences import count, some, span, verb
from redrive.cli.output.table import age
from redrive.history import DestinationHealth
from redrive.history.views import health_view
from redrive.printable import one_line
from redrive.recovery import DryRun, Filter, Preview, Status, StillFailing, views


@dataclass(frozen=True, slots=True)
class Forecast:
    """What an operation would find.

    Attributes:
        chosen: the messages that were asked for.
        found: those that match.
        previews: what would change about the first of them.
        sent: if nothing matches, those that would match but were sent already, with the result not known yet.
        unread: how many failures are not in the store, by queue.
        hint: a sentence about these; empty if there are none.
        is_repeated: whether the same request was made before, with the same key.
        destinations: how the queues are doing that messages would go to.
    """

    chosen: Filter | list[str]
    found: DryRun
    previews: list[Preview]
    sent: DryRun | None
    unread: dict[str, int]
    hint: str
    is_repeated: bool
    destinations: list[DestinationHealth]

    @property
    def filter(self) -> Filter | None:
        """The filter; None if ids were given."""
        return self.chosen if isinstance(self.chosen, Filter) else None

    @property
    def span(self) -> str:
        """Between which instants messages must have failed: an age in a filter is an instant by now."""
        return "" if self.filter is None else span(self.filter)

    def messages(self, number: int) -> str:
        """Return a number of failed messages in words, with the span they failed in."""
        return count(number, "failed message") + (f" that failed {self.span}" if self.span else "")


async def forecast(
    opened: OpenRecovery, chosen: Filter | list[str], found: DryRun, previews: list[Preview], key: str | None
) -> Forecast:
    """Return what an operation would find, with what a person needs to know beside it."""
    if not isinstance(chosen, Filter):  # as an id, not as what the filter makes of it
        found = replace(found, unknown_ids=[each for each in found.unknown_ids if each in chosen])
    sent = None
    if not found.matched and isinstance(chosen, Filter) and chosen.status == frozenset({Status.UNRESOLVED}):
        sent = await opened.recovery.dry_run(replace(chosen, status=frozenset({Status.RETRY_ISSUED})))
    unread = await opened.unread()
    is_repeated = key is not None and await opened.recovery.ledger.requested(key) is not None
    hint = opened.unread_hint(unread)
    destinations: list[DestinationHealth] = []
    if has_history(opened.broker):
        async with open_history(opened.broker) as history:
            destinations = await history.destinations(found.by_destination)
    return Forecast(chosen, found, previews, sent, unread, hint, is_repeated, destinations)


def print_forecast(seen: Forecast, *, as_json: bool, would: str) -> None:
    """Print what an operation would find.

    Args:
        seen: that.
        as_json: whether as JSON.
        would: what would be done with those that are sent.
    """
    if as_json:
        healths = [health_view(each) for each in seen.destinations]
        console.print_json(views.dry_run_view(seen.found, seen.filter, seen.previews, seen.unread, healths))
        return
    for line in _lines(seen, would):
        console.out().print(line, soft_wrap=True)
    if seen.sent is not None and seen.sent.holders:
        console.warn(seen.sent.conflict(again="--again"))
    console.warn(seen.hint)
    print_previews(seen.previews)


def _lines(seen: Forecast, would: str) -> list[Text]:
    found = seen.found
    matches, free = verb(found.matched, "matches"), verb(found.free, "is")
    lines = [Text(f"{found.matched:,} {matches}, {found.free:,} {free} available")]
    lines += [Text(f"  failed {seen.span}")] if seen.span else []
    healths = {each.queue: each for each in seen.destinations}
    for to, number in found.by_destination.items():
        lines.append(Text(f"  {number:,} {would} {one_line(to)}"))
        lines += [_health(each) for each in [healths.get(to)] if each is not None and (each.workers or each.ready)]
        lines += [_failing(each) for each in found.still_failing if each.destination == to]
    if found.holders:
        skipped = f"{found.taken:,} {verb(found.taken, 'is')} skipped"
        lines.append(Text(f"{skipped}: {found.conflict(again='--again')}"))
    if found.unknown_ids:
        lines.append(Text(unknown_ids_text(found.unknown_ids)))
    return lines


def _health(each: DestinationHealth) -> Text:
    if not each.is_read:
        return Text(f"    no worker reads it, {each.ready:,} waiting", "yellow")
    pace = f"{each.completed_per_minute:,.0f} a minute completed, {each.failed_per_minute:,.0f} failed"
    return Text(f"    {count(each.workers, 'worker')}, {each.ready:,} waiting, {pace}")


def _failing(each: StillFailing) -> Text:
    what = f"still failing there: {one_line(each.exception_type)}, last {age(each.last_failed_at)} ago"
    return Text(f"    {what} ({each.count:,} of these)", "yellow")


def check_any(seen: Forecast) -> None:
    """Refuse an operation that would do nothing."""
    found = seen.found
    if seen.is_repeated:
        return
    if found.matched:
        if not found.free and found.holders:
            raise console.refusal(_conflict(found), ExitStatus.CONFLICT)
        console.warn(unknown_ids_text(found.unknown_ids) if found.unknown_ids else "")
        console.warn(seen.hint)
        return
    if found.unknown_ids:
        raise console.refusal(
            f"no failed message has these ids: {some(found.unknown_ids)}; see them: redrive failed list --json",
            ExitStatus.NOT_FOUND,
        )
    if seen.sent is not None and seen.sent.holders:
        raise console.refusal(f"nothing is left to send: {_conflict(seen.sent)}", ExitStatus.NOTHING_CHOSEN)
    what = (seen.filter is not None and seen.filter.written) or "status:unresolved"
    way_out = seen.hint or "see what there is: redrive failed groups"
    raise console.refusal(f"no failed message matches {one_line(what)}; {way_out}", ExitStatus.NOTHING_CHOSEN)


def _conflict(found: DryRun) -> str:
    """Return which operations have the messages, and the way out."""
    first = found.holders[0]
    command = "show" if first.is_over else "watch"
    return f"{found.conflict(again='--again')}\n  redrive operations {command} {first.operation}"
