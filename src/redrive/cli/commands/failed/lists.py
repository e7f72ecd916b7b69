# SPDX-License-Identifier: MIT
"""``redrive failed list``, ``show``, ``groups`` and ``count``: find failed messages, and see why they failed."""

from dataclasses import replace
from typing import Annotated, NamedTuple

import typer

from redrive.cli.open import OpenRecovery, with_recovery
from redrive.cli.options.connection import RecoveryConnection
from redrive.cli.options.filter import Failure, FilterOptions, complete_order
from redrive.cli.options.groups import grouped
from redrive.cli.options.page import Limit
from redrive.cli.options.sources import Sources
from redrive.cli.output import console, sentences
from redrive.cli.output.message_detail import print_failed
from redrive.cli.output.table import print_table
from redrive.cli.output.tables import failed_table, groups_table, statuses_table
from redrive.recovery import FailedMessage, Filter, GroupInfo, Order, Place, Status, views


def failed() -> None:
    """Find failed messages and see why they failed.

    Examples:
      redrive failed groups
      redrive failed list queue:orders exception:TimeoutError 'age<2h'
      redrive failed list --queue orders --since 2h --text 'no address'
      redrive failed show 17
      redrive failed export queue:orders --output orders.jsonl

    A filter without status: means unresolved messages; status:any means all.
    These commands first move new failures from the error queue into the
    store; --no-ingest leaves them there. A worker without an error queue
    leaves its failures in dead-letter queues: --dead moves those, too. A
    queue that was read once is read from then on.
    """


@grouped
def list_failed(
    which: FilterOptions,
    sources: Sources,
    *,
    order: Annotated[
        str, typer.Option(metavar="WORD", help="oldest, newest, last-failed.", autocompletion=complete_order)
    ] = "oldest",
    limit: Limit = 20,
    after: Annotated[
        str, typer.Option(metavar="PLACE", help="Continue after this one, by its number.", show_default=False)
    ] = "0",
    connection: RecoveryConnection,
) -> None:
    """List failed messages.

    They are listed as they were first seen, with --order newest the other way
    round, with --order last-failed the newest failure first. Without status: in
    the filter only unresolved ones are.

    Examples:
      redrive failed list
      redrive failed list queue:orders 'attempts>=3'
      redrive failed list --group 3f2a9c4e5b6d7081 --order newest --limit 5
      redrive failed list status:any operation:7 outcome:failed,skipped
    """

    async def look(opened: OpenRecovery) -> tuple[list[FailedMessage], _Beside]:
        chosen = await which.chosen(opened)
        page = await opened.recovery.failed(chosen, after=Place.of(after, Order.of(order)), limit=limit, order=order)
        return page, await _beside(opened, chosen, is_any=bool(page))

    def check() -> None:
        which.check()
        Place.of(after, Order.of(order))

    page, beside = with_recovery(connection, look, sources, check=check)
    if connection.as_json:
        console.print_json(views.records_view(page))
    elif page:
        print_table(failed_table(page))
    else:
        console.say(beside.nothing)
    if len(page) == limit:
        last = page[-1].place if Order.of(order) is Order.LAST_FAILED else page[-1].number
        console.hint(f"there may be more: --after {last}")
    console.warn(beside.hint)


@grouped
def show(failure: Failure, sources: Sources, connection: RecoveryConnection) -> None:
    """Show one failed message: attempts, stack trace, headers, body, operations, notes."""
    detail = with_recovery(connection, lambda opened: opened.failed_message(failure), sources)
    if connection.as_json:
        console.print_json(views.detail_view(detail))
    else:
        print_failed(detail)


@grouped
def groups(
    which: FilterOptions,
    sources: Sources,
    *,
    by: Annotated[
        str, typer.Option(metavar="WHAT", help="exception, queue, type, or a classifier of your own.")
    ] = "exception",
    limit: Limit = 20,
    connection: RecoveryConnection,
) -> None:
    """Show what failed messages have in common, the largest group first.

    A group has the same exception from the same place in the code; ids and
    numbers in the texts may differ.

    Examples:
      redrive failed groups
      redrive failed groups --by queue
      redrive failed groups queue:orders 'age<1d'
    """

    async def look(opened: OpenRecovery) -> tuple[list[GroupInfo], _Beside]:
        chosen = await which.chosen(opened)
        found = await opened.recovery.groups(chosen, by=by, limit=limit + 1, largest_first=True)
        return found, await _beside(opened, chosen, is_any=bool(found))

    found, beside = with_recovery(connection, look, sources, check=which.check)
    largest = found[:limit]
    if connection.as_json:
        console.print_json(views.records_view(largest))
    elif largest:
        print_table(groups_table(largest))
        _print_next(largest[0], has_more=len(found) > limit)
    else:
        console.say(beside.nothing)
    console.warn(beside.hint)


@grouped
def count(
    which: FilterOptions,
    sources: Sources,
    *,
    by_status: Annotated[bool, typer.Option("--by-status", help="Count each status by itself.")] = False,
    connection: RecoveryConnection,
) -> None:
    """Count failed messages.

    Without status: in the filter it counts those that are unresolved.

    Examples:
      redrive failed count queue:orders
      redrive failed count --by-status status:any
    """

    async def look(opened: OpenRecovery) -> tuple[dict[Status, int], _Beside]:
        chosen = await which.chosen(opened)
        if not by_status:
            counts = {Status.UNRESOLVED: await opened.recovery.count(chosen)}
        else:
            counts = await opened.recovery.count_by_status(chosen)
        return counts, await _beside(opened, chosen, is_any=any(counts.values()))

    counts, beside = with_recovery(connection, look, sources, check=which.check)
    if connection.as_json:
        view = views.count_by_status_view(counts) if by_status else views.count_view(sum(counts.values()))
        console.print_json(view)
    elif by_status:
        print_table(statuses_table(counts))
    else:
        console.say(f"{sum(counts.values()):,}")
    console.warn(beside.hint)


# --- beside an answer


def _print_next(group: GroupInfo, *, has_more: bool) -> None:
    term = f"--group {group.id}" if group.classifier not in ("queue", "type") else f"{group.classifier}:{group.id}"
    rest = "there are more: --limit; " if has_more else ""
    console.hint(f"{rest}see one: redrive failed list {term}")


class _Beside(NamedTuple):
    """What a person has to know beside an answer.

    Attributes:
        nothing: that nothing matches, if that is so.
        hint: where failures are that have not been read.
    """

    nothing: str
    hint: str


async def _beside(opened: OpenRecovery, chosen: Filter, *, is_any: bool) -> _Beside:
    hint = opened.unread_hint(await opened.unread())
    if is_any:
        return _Beside("", hint)
    settled = 0
    if chosen.status == frozenset({Status.UNRESOLVED}):
        settled = await opened.recovery.count(replace(chosen, status=frozenset(Status)))
    what = f"failed message matches {chosen.written}" if chosen.written else "failed messages"
    if not settled:
        return _Beside(f"no {what}", hint)
    others = f"{settled:,} with another status {sentences.verb(settled, 'matches')}: add status:any"
    return _Beside(f"no unresolved {what}; {others}", hint)
