# SPDX-License-Identifier: MIT
"""``redrive recover``, ``edit``, ``archive``, ``restore``, ``resolve``: ask for an operation, and see it through."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from redrive.cli import screen
from redrive.cli.changing import Changes, by_hand, in_editor, print_previews
from redrive.cli.choosing import Bulk, Which, found
from redrive.cli.exit_status import ExitStatus
from redrive.cli.failed import Failure
from redrive.cli.foresight import Foreseen, asked_for, check_any, foreseen, meant, print_foreseen
from redrive.cli.ledgers import Actor, Desk, Place, Sources, who, with_recovery
from redrive.cli.option_groups import spread
from redrive.cli.reaching import Yes, complete_queue, confirm, is_a_person_there, seconds
from redrive.cli.watching import Watch, conclude
from redrive.printable import one_line
from redrive.recovery import Canary, FailedDetail, Kind, Operation, OperationState, Preview, Transform, views

_HOW = "How they are sent"
DryRunOnly = Annotated[bool, typer.Option("--dry-run", help="Say what it would find; nothing is read or sent.")]
Most = Annotated[int | None, typer.Option("--limit", metavar="N", help="How many at most, the oldest first.")]
Detach = Annotated[bool, typer.Option("--detach", help="Ask for it, and leave the work to others.")]
Wait = Annotated[
    str, typer.Option(metavar="TIME", help="Wait for word of what was sent, until there is none for that long.")
]


@dataclass(frozen=True, slots=True)
class Request:
    """Who asks, and why."""

    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; for the audit trail.")] = ""
    key: Annotated[str | None, typer.Option(metavar="TEXT", help="The same key twice is the same request.")] = None
    actor: Actor = None

    @property
    def told(self) -> dict[str, Any]:
        """As recovery takes it."""
        return {"actor": who(self.actor), "reason": self.reason, "key": self.key}


def _how(metavar: str, help_text: str, **more: Any) -> Any:  # noqa: ANN401 - what typer's own function returns
    return typer.Option(metavar=metavar, help=help_text, rich_help_panel=_HOW, **more)


@dataclass(frozen=True, slots=True)
class Pace:
    """How messages are sent."""

    limit: Annotated[int | None, _how("N", "How many at most, the oldest first.")] = None
    rate: Annotated[float | None, _how("N", "Messages a second to each queue.")] = None
    canary: Annotated[int | None, _how("N", "Send so many first, the rest if they do well.")] = None
    max_failures: Annotated[int | None, _how("N", "How many of those may fail again; 0.")] = None
    patience: Annotated[str | None, _how("TIME", "How long to wait for word of those; 5m.")] = None
    to: Annotated[str | None, _how("QUEUE", "Send them all there.", autocompletion=complete_queue)] = None
    again: Annotated[
        bool, typer.Option("--again", rich_help_panel=_HOW, help="Also those sent before and never heard of.")
    ] = False
    at: Annotated[str | None, _how("WHEN", "Begin then: 2026-11-01T22:00Z.")] = None
    in_: Annotated[str | None, typer.Option("--in", metavar="TIME", rich_help_panel=_HOW, help="Begin after: 2h.")] = (
        None
    )

    @property
    def told(self) -> dict[str, Any]:
        """As recovery takes it."""
        return {
            "limit": self.limit,
            "rate": self.rate,
            "canary": self._canary(),
            "redirect": self.to,
            "again": self.again,
            "at": self._begin(),
        }

    def _canary(self) -> Canary | None:
        if self.canary is None:
            for option, given in (("--max-failures", self.max_failures), ("--patience", self.patience)):
                if given is not None:
                    raise screen.refusal(f"{option} is about --canary N; say how many", ExitStatus.NOT_UNDERSTOOD)
            return None
        patience = seconds("patience", self.patience or "5m") or 0.0
        return Canary(count=self.canary, max_failures=self.max_failures or 0, patience=patience)

    def _begin(self) -> datetime | float | None:
        if self.at is not None and self.in_ is not None:
            raise screen.refusal("say either --at or --in, not both", ExitStatus.NOT_UNDERSTOOD)
        if self.at is None:
            return seconds("in", self.in_)
        try:
            at = datetime.fromisoformat(self.at)
        except ValueError:
            problem = f"--at {self.at!r}: write a date such as 2026-11-01T22:00Z"
            raise screen.refusal(problem, ExitStatus.NOT_UNDERSTOOD) from None
        return at if at.tzinfo else at.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Course:
    """How far a command goes by itself."""

    dry_run: DryRunOnly = False
    detach: Detach = False
    wait: Wait = "5s"
    yes: Yes = False

    @property
    def patience(self) -> float:
        """How long to wait for word of what was sent, in seconds."""
        return seconds("wait", self.wait) or 0.0

    def check(self, which: Which, bulk: Bulk) -> None:
        """Refuse what cannot be understood, before anything is read."""
        _ = self.patience
        bulk.check(which)


@spread
def recover(
    context: typer.Context,
    *,
    which: Which,
    bulk: Bulk,
    pace: Pace,
    changes: Changes,
    request: Request,
    course: Course,
    place: Place,
    sources: Sources,
    preview: Annotated[bool, typer.Option("--preview", help="Show what would change about the first five.")] = False,
) -> None:
    """Send failed messages to where they failed, or elsewhere, and watch what becomes of them.

    The request is stored first; the command then does the work itself,
    beside any service there is. After Ctrl-C a service goes on with it;
    without one it waits for redrive operations watch, or run.

    Examples:
      redrive recover queue:orders exception:TimeoutError --dry-run
      redrive recover --group 3f2a9c4e5b6d7081 --canary 5 --rate 50
      redrive recover --id 17 --to orders-by-hand
      redrive recover type:order.placed --set-json /currency=EUR --preview
      redrive recover --all --reason 'the warehouse is back' --yes

    A filter with > or < is for the shell to quote: 'age<2h'.
    """
    transform = told(lambda: changes.transform)
    how = told(lambda: pace.told) | {"transform": transform}

    async def foresee(desk: Desk) -> Foreseen:
        chosen = await bulk.chosen(which, desk)
        found = asked_for(await desk.recovery.dry_run(chosen, **how), chosen)
        sample = min(5, pace.limit or 5)
        previews = await desk.recovery.preview(chosen, transform, sample=sample) if transform is not None else []
        return await foreseen(desk, chosen, found, previews, request.key)

    is_only_asked = course.dry_run or preview
    seen = with_recovery(
        context, foresee, sources.unread if is_only_asked else sources, check=lambda: course.check(which, bulk)
    )
    if is_only_asked:
        print_foreseen(seen, as_json=place.as_json, verb="would be sent to")
        return
    check_any(seen)
    ways = ", ".join(f"{many:,} to {one_line(to)}" for to, many in seen.found.by_destination.items())
    if not course.yes and is_a_person_there():
        print_previews(seen.previews[:1], to_stderr=True)
    confirm(f"Recover {meant(seen, seen.found.free)}{f' ({ways})' if ways else ''}?", yes=course.yes)
    _see_through(
        context, course, place, sources, lambda desk: desk.recovery.recover(seen.chosen, **how, **request.told)
    )


def told(make: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it makes
    """Return what options come to; what is wrong with them is told."""
    from redrive.errors import RedriveError

    try:
        return make()
    except RedriveError as error:
        raise screen.failure(error) from None


def _see_through(
    context: typer.Context,
    course: Course,
    place: Place,
    sources: Sources,
    ask: Callable[[Desk], Awaitable[Operation]],
) -> None:
    """Ask for an operation, work on it until it is over, and tell what came of it."""
    wait = course.patience
    watches: list[Watch] = []

    async def work(desk: Desk) -> Operation:
        operation = await ask(desk)
        if course.detach or operation.state is OperationState.SCHEDULED:
            return operation
        watches.append(Watch(desk, wait))
        return await watches[0].until_over(operation.number)

    operation = with_recovery(context, work, sources.unread)
    conclude(operation, watches[0] if watches else None, as_json=place.as_json)


# --- one by hand


@spread
def edit(
    context: typer.Context,
    *,
    failure: Failure,
    changes: Changes,
    request: Request,
    course: Course,
    place: Place,
    sources: Sources,
) -> None:
    """Send an edited copy of one failed message.

    Without options it opens $EDITOR with headers and body. The differences
    are shown before anything is sent. The copy has an id of its own, and
    the two know of each other.

    Examples:
      redrive edit 17
      redrive edit 17 --set-json /customer:=42 --yes
      redrive edit 17 --body-from order.json
    """
    stated = told(lambda: changes.transform)
    detail = with_recovery(context, lambda desk: found(desk, failure), sources.unread if course.dry_run else sources)
    transform = stated or told(lambda: by_hand(detail.message, in_editor))
    preview = with_recovery(context, lambda desk: _previewed(desk, detail, transform))
    if preview.problem:
        raise screen.refusal(
            f"the message cannot be changed like that: {one_line(preview.problem)}", ExitStatus.NOT_UNDERSTOOD
        )
    if place.as_json and (course.dry_run or not preview.changes):
        screen.print_json(views.previews_view([preview]))
        return
    if not preview.changes:
        screen.say("nothing was changed, and nothing was sent")
        return
    print_previews([preview], to_stderr=not course.dry_run)
    if course.dry_run:
        return
    confirm(f"Send the edited copy to {detail.summary.queue}?", yes=course.yes)
    _see_through(
        context,
        course,
        place,
        sources,
        lambda desk: desk.recovery.edit(detail.summary.id, transform, **request.told),
    )


async def _previewed(desk: Desk, detail: FailedDetail, transform: Transform) -> Preview:
    (preview,) = await desk.recovery.preview([detail.summary.id], transform, sample=1)
    return preview


# --- without sending


def _settling(kind: Kind, help_text: str) -> Callable[..., None]:
    """Return the command for an operation that sends nothing."""

    def settle(
        context: typer.Context,
        *,
        which: Which,
        bulk: Bulk,
        request: Request,
        course: Course,
        place: Place,
        sources: Sources,
        limit: Most = None,
    ) -> None:
        async def foresee(desk: Desk) -> Foreseen:
            chosen = await bulk.chosen(which, desk)
            seen = asked_for(await desk.recovery.dry_run(chosen, kind, limit=limit), chosen)
            return await foreseen(desk, chosen, replace(seen, by_destination={}), [], request.key)

        def ask(desk: Desk) -> Awaitable[Operation]:
            settle: Callable[..., Awaitable[Operation]] = getattr(desk.recovery, kind.value)
            return settle(seen.chosen, limit=limit, **request.told)

        seen = with_recovery(
            context, foresee, sources.unread if course.dry_run else sources, check=lambda: course.check(which, bulk)
        )
        if course.dry_run:
            print_foreseen(seen, as_json=place.as_json, verb="")
            return
        check_any(seen)
        confirm(f"{kind.value.capitalize()} {meant(seen, seen.found.matched)}?", yes=course.yes)
        _see_through(context, course, place, sources, ask)

    settle.__name__, settle.__doc__ = kind.value, help_text
    return spread(settle)


archive = _settling(
    Kind.ARCHIVE,
    """Put failed messages away that nobody needs; restore brings them back.

    Examples:
      redrive archive 'age>30d' --dry-run
      redrive archive --group 3f2a9c4e5b6d7081 --reason 'test data' --yes
    """,
)
restore = _settling(
    Kind.RESTORE,
    """Make messages unresolved again that were archived or resolved.

    Examples:
      redrive restore status:archived queue:orders
      redrive restore --id 17 --yes
    """,
)
resolve = _settling(
    Kind.RESOLVE,
    """Note that failed messages need no recovery: somebody has dealt with them otherwise.

    Example: redrive resolve --id 17 --reason 'booked by hand' --yes
    """,
)
