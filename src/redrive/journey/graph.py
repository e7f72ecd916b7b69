# SPDX-License-Identifier: MIT
"""Builds the graph of a journey from what the tables know. Pure: no I/O, no clock.

A message is a node for each queue in which it is known to have been; the failure of a message, an operation that sent
it again, a task of a pipeline and a shipment are nodes of their own.
"""

from collections import defaultdict
from collections.abc import Iterable

from redrive.journey.journey import Edge, EdgeKind, Happening, Journey, Node
from redrive.journey.message_nodes import MessageStay, stays_of
from redrive.journey.records import FailureRecord, Records, TaskRecord
from redrive.journey.times import Interval, Kind, parted, totals

_ENDED_TASKS = ("done", "cancelled")
_SENT_AGAIN = ("pending", "forwarded", "succeeded", "failed-again", "closed", "superseded")


def build(id_: str, records: Records) -> Journey:
    """Return the journey of a message.

    Args:
        id_: the message's id, or that of a task or a shipment.
        records: all that is known of it, its parents and its children; there must be something.
    """
    graph = _Graph(records)
    graph.add_messages()
    for failure in records.failures:
        graph.add_failure(failure)
    for task in records.tasks:
        graph.add_task(task)
    graph.add_forks()
    graph.add_children()
    return graph.journey(id_)


class _Graph:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._now = records.now
        self._stays = stays_of(records)
        self._by_message: dict[str, list[MessageStay]] = defaultdict(list)
        self._nodes: dict[str, Node] = {}
        self._edges: set[Edge] = set()
        self._intervals: list[Interval] = []

    def _link(self, source: str, target: str, kind: EdgeKind) -> None:
        if source != target:
            self._edges.add(Edge(source, target, kind))

    # --- messages

    def add_messages(self) -> None:
        """Add a node for each queue in which a message is known to have been."""
        for stay in self._stays:
            self._by_message[stay.message_id].append(stay)
            self._nodes[stay.node] = stay.as_node()
            self._intervals += stay.intervals

    def add_forks(self) -> None:
        """Add a node for each event of a topic: what several subscriptions got with one id forked there."""
        for stay in self._stays:
            topic, slash, _ = stay.queue.rpartition("/")
            if not slash or topic not in self._records.topics:
                continue
            source = f"{stay.message_id}@{topic}"
            known = self._nodes.get(source)
            begin = stay.begin if known is None else min(known.begin, stay.begin)
            self._nodes[source] = Node(source, "event", "replay", topic, stay.message_id, "forked", begin, begin)
            self._link(source, stay.node, "fork")

    def add_children(self) -> None:
        """Add the steps from parents to children."""
        for stay in self._stays:
            first = self._by_message[stay.message_id][0]
            if stay.parent is not None and stay is first and self._by_message.get(stay.parent):
                self._link(self._place_of_parent(stay.parent, stay), self._entrance(stay), "child")
            for other in self._by_message[stay.message_id]:
                if stay.is_moved_from(other):
                    self._link(other.node, stay.node, "failed")
        for parent, task in self._records.submissions:
            node = f"task:{task}"
            if node in self._nodes and self._by_message.get(parent):
                self._link(self._last_place(parent, self._nodes[node].begin), node, "submitted")

    def _entrance(self, stay: MessageStay) -> str:
        """Return where a message came in: the topic, if it was sent to one."""
        topic = f"{stay.message_id}@{stay.queue.rpartition('/')[0]}"
        return topic if topic in self._nodes else stay.node

    def _place_of_parent(self, parent: str, child: MessageStay) -> str:
        """Return where a parent was handled: the leg whose name the child's id has, or where it was last before."""
        for stay in self._by_message[parent]:
            leg = stay.queue.rpartition("/")[2]
            if child.message_id == f"{parent}:{leg}" or child.message_id.startswith(f"{parent}:{leg}:"):
                return stay.node
        return self._last_place(parent, child.begin)

    def _last_place(self, message_id: str, before: float) -> str:
        """Return where a message was at an instant: not in an error queue, if it is known to have been elsewhere."""
        stays = self._by_message[message_id]
        working = [stay for stay in stays if not stay.is_failed_copy] or stays
        earlier = [stay for stay in working if stay.begin <= before] or working[:1]
        there = [stay for stay in earlier if stay.end is None or stay.end >= before]
        return (there or earlier)[-1].node

    # --- failures and recoveries

    def add_failure(self, failure: FailureRecord) -> None:
        """Add a failed message, the operations that sent it again, and where they sent it."""
        node = f"failure:{failure.id}"
        first, last = failure.attempts[0], failure.attempts[-1]
        is_over = failure.status in ("resolved", "archived")
        end = (failure.settled_at or last.at) if is_over else None
        happenings = [Happening(each.at, "failed", each.exception) for each in failure.attempts]
        self._nodes[node] = Node(
            node,
            "failure",
            "recover",
            failure.queue,
            failure.message_id,
            failure.status,
            first.at,
            end,
            tuple(happenings),
        )
        for stay in self._by_message.get(failure.message_id, ()):
            if stay.queue == failure.queue:
                self._link(stay.node, node, "failed")
        for part in failure.parts:
            self._add_operation(failure, node, part.operation)
        self._intervals += _failure_intervals(failure, node, self._now)
        if failure.edited_as is not None:
            self._link_edit(failure, node)

    def _add_operation(self, failure: FailureRecord, node: str, number: int) -> None:
        part = next(each for each in failure.parts if each.operation == number)
        operation = f"operation:{number}"
        asked = Happening(part.requested_at, "requested", f"{part.actor}: {part.reason}" if part.reason else part.actor)
        outcome = Happening(part.at, part.outcome)
        is_open = part.outcome in ("pending", "forwarded")
        self._nodes[operation] = Node(
            *(operation, "operation", "recover", f"{part.kind} {number}", failure.message_id, part.outcome),
            *(part.requested_at, None if is_open else part.at, (asked, outcome)),
        )
        self._link(node, operation, "recovery")
        if part.outcome in _SENT_AGAIN and failure.edited_as is None:
            for stay in self._by_message.get(failure.message_id, ()):
                if stay.queue == failure.queue:
                    self._link(operation, stay.node, "again")

    def _link_edit(self, failure: FailureRecord, node: str) -> None:
        for stay in self._stays:
            if stay.message_id == failure.edited_as:
                self._link(node, stay.node, "edit")
        for other in self._records.failures:
            if other.edit_of == failure.id:
                self._link(node, f"failure:{other.id}", "edit")

    # --- pipelines

    def add_task(self, task: TaskRecord) -> None:
        """Add a task of a pipeline, what it came from, and what it sent."""
        node = f"task:{task.id}"
        is_over = task.state in _ENDED_TASKS
        title = f"{task.pipeline} {task.stage}" + (f" to {task.destination}" if task.destination else "")
        happenings = [Happening(each.at, each.name, each.reason) for each in task.actions]
        if task.slot_at is not None:
            happenings.append(Happening(task.created_at, "batched", f"{task.item_count} items in the slot"))
        self._nodes[node] = Node(
            *(node, "task", "re-run", title, task.id, task.state, task.created_at),
            *(task.changed_at if is_over else None, tuple(sorted(happenings, key=lambda each: each.at))),
        )
        for parent in task.parents:
            self._link(f"task:{parent}", node, "join" if task.slot_at is not None else "stage")
        self._intervals += _task_intervals(task, node, self._now)
        for shipment in task.shipments:
            self._add_shipment(node, task, shipment.delivery_id)

    def _add_shipment(self, node: str, task: TaskRecord, delivery_id: str) -> None:
        sent = next(each for each in task.shipments if each.delivery_id == delivery_id)
        target = f"shipment:{delivery_id}"
        end = sent.changed_at if sent.state in ("sent", "refused") else None
        said = sent.receipt or sent.reason
        happening = Happening(sent.changed_at, sent.state, said)
        self._nodes[target] = Node(
            *(
                target,
                "shipment",
                "re-run",
                task.destination,
                delivery_id,
                sent.state,
                task.created_at,
                end,
                (happening,),
            )
        )
        self._link(node, target, "sent")
        for stay in self._by_message.get(delivery_id, ()):
            self._link(target, stay.node, "child")

    # --- the whole

    def journey(self, id_: str) -> Journey:
        """Return the journey."""
        edges = tuple(sorted(edge for edge in self._edges if {edge.source, edge.target} <= self._nodes.keys()))
        # What is first known of a message may be its failure: then both begin at the same instant.
        nodes = tuple(sorted(self._nodes.values(), key=lambda node: (node.begin, node.kind != "message", node.id)))
        ends = [node.end for node in nodes if node.end is not None]
        is_open = any(node.end is None for node in nodes)
        begin = min(node.begin for node in nodes)
        end = max([begin, *ends, *(each.end for each in self._intervals if each.end <= self._now)])
        end = max(end, self._now) if is_open else end
        parts = parted(self._intervals, begin, end)
        return Journey(
            id=id_,
            state=self._state(nodes),
            begin=begin,
            end=end,
            nodes=nodes,
            edges=edges,
            parts=tuple(parts),
            times=totals(parts),
            notes=tuple(self._notes()),
        )

    def _state(self, nodes: Iterable[Node]) -> str:
        listed = list(nodes)
        if any(stay.is_under_way for stay in self._stays) or any(
            node.end is None
            and node.kind in ("task", "operation")
            and node.state not in ("failed", "expired", "unknown")
            for node in listed
        ):
            return "under way"
        is_failed = any(node.kind == "failure" and node.state == "unresolved" for node in listed)
        troubled = any(node.kind == "task" and node.state in ("failed", "expired", "unknown") for node in listed)
        if is_failed or troubled or any(stay.is_dead for stay in self._stays):
            return "failed"
        return "unknown" if any(stay.is_lost_sight_of for stay in self._stays) else "ended"

    def _notes(self) -> Iterable[str]:
        for stay in self._stays:
            if not stay.has_beginning:
                yield f"no record of {stay.message_id} in {stay.queue} before its first trouble"
            if stay.is_lost_sight_of:
                yield (
                    f"no record of {stay.message_id} in {stay.queue} after that: it is in no queue that was looked at,"
                    " so it was completed without trouble"
                )
        if self._records.was_cut:
            yield "not all messages in the queues were looked at, only the newest"


def _failure_intervals(failure: FailureRecord, node: str, now: float) -> list[Interval]:
    """Return the times in which a message waited for a person, and in which it was in recovery."""
    found: list[Interval] = []
    asked = [(part.requested_at, part) for part in failure.parts if part.outcome in _SENT_AGAIN]
    failed = [each.at for each in failure.attempts]
    for at in failed:
        following = [when for when, _ in asked if when >= at] + [each for each in failed if each > at]
        settled = failure.settled_at if failure.settled_at is not None and failure.settled_at >= at else now
        is_over = failure.status in ("resolved", "archived")
        found.append(Interval("failed", at, min(following, default=settled if is_over else now), node))
    for when, part in asked:
        is_open = part.outcome in ("pending", "forwarded")
        failed_then = [each.at for each in failure.attempts if each.operation == part.operation]
        found.append(Interval("in recovery", when, now if is_open else min([part.at, *failed_then]), node))
    return found


def _task_intervals(task: TaskRecord, node: str, now: float) -> list[Interval]:
    """Return the times in which a task waited for a slot, was worked on, or had failed."""
    kind: Kind = "in batch" if task.stage == "batch" else "handling"
    if task.state in _ENDED_TASKS:
        return [Interval(kind, task.created_at, task.changed_at, node)]
    if task.state in ("failed", "expired", "unknown"):
        return [Interval(kind, task.created_at, task.changed_at, node), Interval("failed", task.changed_at, now, node)]
    return [Interval(kind, task.created_at, now, node)]
