# SPDX-License-Identifier: MIT
"""``redrive recover``, ``edit``, ``archive``, ``restore``, ``resolve``: request an operation, and see it through."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any

import typer

from redrive.cli.editor import edited, in_editor
from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import OpenRecovery, with_recovery
from redrive.cli.options.connection import RecoveryConnection
from redrive.cli.options.filter import BulkOptions, Failure, FilterOptions
from redrive.cli.options.groups import grouped
from redrive.cli.options.recovery_settings import RecoveryOptions
from redrive.cli.options.request import RequestOptions, RunOptions
from redrive.cli.options.sources import Sources
from redrive.cli.options.transform import TransformOptions
from redrive.cli.output import console, prompt
from redrive.cli.output.dry_run import Forecast, check_any, forecast, print_forecast
from redrive.cli.output.previews import print_previews
from redrive.cli.watch import run_operation
from redrive.printable import one_line
from redrive.recovery import FailedDetail, Filter, Kind, Operation, OperationState, Preview, Recovery, Transform, views

_SAMPLE = 5


@grouped
def recover(
    *,
    which: FilterOptions,
    bulk: BulkOptions,
    settings: RecoveryOptions,
    changes: TransformOptions,
    request: RequestOptions,
    course: RunOptions,
    sources: Sources,
    preview: Annotated[
        bool, typer.Option("--preview", help=f"Show what would change about the first {_SAMPLE} messages.")
    ] = False,
    connection: RecoveryConnection,
) -> None:
    """Send failed messages to their queue again, and watch the results.

    The request is stored first; the command then does the work itself,
    beside any service that runs. After Ctrl-C a service continues with it;
    without one it waits for redrive operations watch, or run.

    Examples:
      redrive recover queue:orders exception:TimeoutError --dry-run
      redrive recover --group 3f2a9c4e5b6d7081 --canary 5 --rate 50
      redrive recover --id 17 --to orders-by-hand
      redrive recover type:order.placed --set-json /currency=EUR --preview
      redrive recover --all --reason 'the warehouse is back' --yes

    Quote a filter with > or < for the shell: 'age<2h'.
    """
    how = settings.how(changes.transform())

    async def look(opened: OpenRecovery) -> Forecast:
        return await _forecast(opened, await bulk.chosen(which, opened), how, request.key)

    is_dry = course.dry_run or preview
    seen = with_recovery(
        connection,
        look,
        sources.without_ingest if is_dry else sources,
        check=lambda: _check(course, which, bulk),
        functions=changes.functions,
    )
    if is_dry:
        print_forecast(seen, as_json=connection.as_json, would="would be sent to")
        return
    _confirm_recovery(seen, yes=course.yes)
    _run(
        connection,
        course,
        sources,
        lambda opened: opened.recovery.recover(seen.chosen, **how, **request.who),
        functions=changes.functions,
    )


async def _forecast(opened: OpenRecovery, chosen: Filter | list[str], how: dict[str, Any], key: str | None) -> Forecast:
    found = await opened.recovery.dry_run(chosen, **how)
    previews: list[Preview] = []
    if how["transform"] is not None:
        sample = min(_SAMPLE, how["limit"] or _SAMPLE)
        previews = await opened.recovery.preview(chosen, how["transform"], sample=sample)
    return await forecast(opened, chosen, found, previews, key)


def _confirm_recovery(seen: Forecast, *, yes: bool) -> None:
    """Ask the person, with an example of what changes; refuse what would send nothing."""
    check_any(seen)
    if not yes and prompt.is_interactive():
        print_previews(seen.previews[:1], to_stderr=True)
    ways = ", ".join(f"{number:,} to {one_line(to)}" for to, number in seen.found.by_destination.items())
    prompt.confirm(f"Recover {seen.messages(seen.found.free)}{f' ({ways})' if ways else ''}?", yes=yes)


def _check(course: RunOptions, which: FilterOptions, bulk: BulkOptions) -> None:
    """Refuse options that are not valid, before anything is read."""
    _ = course.wait_s
    bulk.check(which)


def _run(
    connection: RecoveryConnection,
    course: RunOptions,
    sources: Sources,
    request: Callable[[OpenRecovery], Awaitable[Operation]],
    *,
    functions: tuple[str, ...] = (),
) -> None:
    run_operation(
        connection,
        sources,
        course.wait_s,
        request,
        is_left=lambda operation: course.detach or operation.state is OperationState.SCHEDULED,
        functions=functions,
    )


# --- one message, edited


@grouped
def edit(
    *,
    failure: Failure,
    changes: TransformOptions,
    request: RequestOptions,
    course: RunOptions,
    sources: Sources,
    connection: RecoveryConnection,
) -> None:
    """Send an edited copy of one failed message.

    Without options it opens $EDITOR with headers and body. The differences
    are shown before anything is sent. The copy has its own id, and each of
    the two messages refers to the other.

    Examples:
      redrive edit 17
      redrive edit 17 --set-json /customer:=42 --yes
      redrive edit 17 --body-from order.json
    """
    stated = changes.transform()
    first = sources.without_ingest if course.dry_run else sources
    detail = with_recovery(connection, lambda opened: opened.failed_message(failure), first)
    transform = stated or edited(detail.message, in_editor)
    preview = with_recovery(connection, lambda opened: _preview(opened, detail, transform), functions=changes.functions)
    if preview.problem:
        problem = f"the message cannot be changed like that: {one_line(preview.problem)}"
        raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
    if connection.as_json and (course.dry_run or not preview.changes):
        console.print_json(views.previews_view([preview]))
        return
    if not preview.changes:
        console.say("nothing was changed, and nothing was sent")
        return
    print_previews([preview], to_stderr=not course.dry_run)
    if course.dry_run:
        return
    prompt.confirm(f"Send the edited copy to {detail.summary.queue}?", yes=course.yes)
    _run(
        connection,
        course,
        sources,
        lambda opened: opened.recovery.edit(detail.summary.id, transform, **request.who),
        functions=changes.functions,
    )


async def _preview(opened: OpenRecovery, detail: FailedDetail, transform: Transform) -> Preview:
    (preview,) = await opened.recovery.preview([detail.summary.id], transform, sample=1)
    return preview


# --- without sending

_REQUESTS: dict[Kind, Callable[[Recovery], Callable[..., Awaitable[Operation]]]] = {
    Kind.ARCHIVE: lambda recovery: recovery.archive,
    Kind.RESTORE: lambda recovery: recovery.restore,
    Kind.RESOLVE: lambda recovery: recovery.resolve,
}


def _without_sending(kind: Kind, help_text: str) -> Callable[..., None]:
    """Return the command for an operation that sends nothing."""

    def settle(
        *,
        which: FilterOptions,
        bulk: BulkOptions,
        request: RequestOptions,
        course: RunOptions,
        sources: Sources,
        limit: Annotated[
            int | None, typer.Option("--limit", metavar="N", help="How many at most, the oldest first.")
        ] = None,
        connection: RecoveryConnection,
    ) -> None:
        async def look(opened: OpenRecovery) -> Forecast:
            chosen = await bulk.chosen(which, opened)
            found = await opened.recovery.dry_run(chosen, kind, limit=limit)
            return await forecast(opened, chosen, replace(found, by_destination={}), [], request.key)

        seen = with_recovery(
            connection,
            look,
            sources.without_ingest if course.dry_run else sources,
            check=lambda: _check(course, which, bulk),
        )
        if course.dry_run:
            print_forecast(seen, as_json=connection.as_json, would="")
            return
        check_any(seen)
        prompt.confirm(f"{kind.value.capitalize()} {seen.messages(seen.found.matched)}?", yes=course.yes)
        _run(
            connection,
            course,
            sources,
            lambda opened: _REQUESTS[kind](opened.recovery)(seen.chosen, limit=limit, **request.who),
        )

    settle.__name__, settle.__doc__ = kind.value, help_text
    return grouped(settle)


archive = _without_sending(
    Kind.ARCHIVE,
    """Archive failed messages that are not needed any more.

    restore brings them back, until redrive failed sweep deletes them.

    Examples:
      redrive archive 'age>30d' --dry-run
      redrive archive --group 3f2a9c4e5b6d7081 --reason 'test data' --yes
    """,
)
restore = _without_sending(
    Kind.RESTORE,
    """Make archived or resolved messages unresolved again.

    They can be recovered then, like any other failed message.

    Examples:
      redrive restore status:archived queue:orders
      redrive restore --id 17 --yes
    """,
)
resolve = _without_sending(
    Kind.RESOLVE,
    """Mark failed messages as resolved, without sending them.

    Example: redrive resolve --id 17 --reason 'booked by hand' --yes
    """,
)
