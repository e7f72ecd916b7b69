# SPDX-License-Identifier: MIT
"""What follows an attempt to send a task. Pure: no I/O, no clock, no randomness."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from redrive.pipeline.records import NewAction, SendResult, ShipmentInfo, ShipmentResult
from redrive.pipeline.shipment import (
    DestinationAway,
    OutcomeUnknown,
    ShipmentDelayed,
    ShipmentOutcome,
    ShipmentRefused,
    ShipmentSent,
)
from redrive.pipeline.states import ShipmentState, TaskEvent
from redrive.pipeline.task_token import TaskToken

OnUnknown: TypeAlias = Literal["probe", "resend", "park"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPolicy:
    """How often, and when, sending is tried again.

    Attributes:
        delays: seconds before each retry; after the last one, sending has failed.
        jitter: by which share each of them is varied.
        on_unknown: what is done with a shipment that may have arrived: look at the destination before it is sent again
            (``probe``), send it again with the same delivery id (``resend``), or leave it to a person (``park``).
    """

    delays: tuple[float, ...]
    jitter: float
    on_unknown: OnUnknown


def result_of(index: int, outcome: ShipmentOutcome, *, is_doubted: bool = False) -> ShipmentResult:
    """Return what is stored of a shipment after one attempt.

    Args:
        index: its place in the task.
        outcome: what came of it.
        is_doubted: whether an earlier attempt may have arrived, and was not looked for. That one failed later says
            nothing about it.
    """
    match outcome:
        case ShipmentSent(receipt):
            return ShipmentResult(index=index, state=ShipmentState.SENT, receipt=receipt)
        case ShipmentRefused(reason):
            return ShipmentResult(index=index, state=ShipmentState.REFUSED, reason=reason)
        case OutcomeUnknown(reason):
            return ShipmentResult(index=index, state=ShipmentState.UNKNOWN, reason=reason)
        case ShipmentDelayed(reason) | DestinationAway(reason):
            state = ShipmentState.UNKNOWN if is_doubted else ShipmentState.PENDING
            return ShipmentResult(index=index, state=state, reason=reason)


def decide_send(
    token: TaskToken,
    outcomes: Mapping[int, ShipmentOutcome],
    others: Sequence[ShipmentInfo],
    policy: SendPolicy,
    *,
    now: float,
    chance: float,
    doubted: Collection[int] = (),
) -> SendResult:
    """Return what is stored after an attempt, and what follows.

    Args:
        token: what the message of this attempt carries.
        outcomes: what came of each shipment that was tried, by their places.
        others: the shipments of the task that were not tried now.
        policy: how often sending is tried again.
        now: the time, in seconds since 1970.
        chance: a random number, 0 <= x < 1.
        doubted: the shipments of which an earlier attempt may have arrived, and was not looked for.
    """
    results = [result_of(index, each, is_doubted=index in doubted) for index, each in sorted(outcomes.items())]
    # what may have arrived is tried again, too: the destination drops what it has, or is looked at before
    again = (ShipmentState.PENDING,) if policy.on_unknown == "park" else (ShipmentState.PENDING, ShipmentState.UNKNOWN)
    left = tuple(each.index for each in results if each.state in again)
    if left and token.retries < len(policy.delays):
        return _retry(token, results, outcomes, left, policy, now=now, chance=chance)
    given_up = tuple(_given_up(each) for each in results)
    states = [*(each.state for each in given_up), *(each.state for each in others)]
    attempt = token.retries + 1
    detail: dict[str, object] = {"results": _summary(given_up)}
    if ShipmentState.UNKNOWN in states:
        reason = next((each.reason for each in given_up if each.state is ShipmentState.UNKNOWN), "unknown outcome")
        action = NewAction(name="send_unknown", attempt=attempt, reason=reason, detail=detail)
        return SendResult(shipments=given_up, event=TaskEvent.DOUBT, action=action)
    if ShipmentState.REFUSED in states:
        reason = next((each.reason for each in given_up if each.state is ShipmentState.REFUSED), "refused")
        action = NewAction(name="send_error", attempt=attempt, reason=reason, detail=detail)
        return SendResult(shipments=given_up, event=TaskEvent.FAIL, action=action)
    return SendResult(
        shipments=given_up, event=TaskEvent.FINISH, action=NewAction(name="send", attempt=attempt, detail=detail)
    )


def _retry(
    token: TaskToken,
    results: Sequence[ShipmentResult],
    outcomes: Mapping[int, ShipmentOutcome],
    left: tuple[int, ...],
    policy: SendPolicy,
    *,
    now: float,
    chance: float,
) -> SendResult:
    asked = max(
        (after for each in outcomes.values() if (after := getattr(each, "after", None)) is not None), default=0.0
    )
    delay = policy.delays[token.retries] * (1 + policy.jitter * (2 * chance - 1))
    due_at = now + max(delay, asked)
    reason = next(each.reason for each in results if each.index in left)
    retry = TaskToken(token.task, token.epoch, token.retries + 1, left)
    detail: dict[str, object] = {"results": _summary(results), "retry_items": list(left), "next_attempt_at": due_at}
    action = NewAction(name="send_warning", attempt=token.retries + 1, reason=reason, detail=detail)
    return SendResult(shipments=tuple(results), event=TaskEvent.RETRY, action=action, retry=retry, due_at=due_at)


def _given_up(result: ShipmentResult) -> ShipmentResult:
    """Return what is stored of a shipment when no retry is left."""
    if result.state is not ShipmentState.PENDING:
        return result
    return ShipmentResult(index=result.index, state=ShipmentState.REFUSED, reason=f"{result.reason}; no retries left")


def _summary(results: Sequence[ShipmentResult]) -> dict[str, list[int]]:
    summary: dict[str, list[int]] = {}
    for each in results:
        summary.setdefault(each.state.word, []).append(each.index)
    return summary
