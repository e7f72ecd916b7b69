# SPDX-License-Identifier: MIT
"""``redrive workers``: who handles messages, and which queues none reads."""

from rich.table import Table
from rich.text import Text

from redrive.broker import Broker, QueueInfo, is_own_queue
from redrive.cli.facades import open_history
from redrive.cli.open import with_broker
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.output import console
from redrive.cli.output.sentences import count, some
from redrive.cli.output.table import age, print_table, table
from redrive.history import WorkerInfo, views
from redrive.printable import one_line


@grouped
def workers(connection: BrokerConnection) -> None:
    """List the workers that are running, and queues that none reads.

    A worker reports itself every five seconds; one that was killed is listed
    for 20 seconds more.

    Examples:
      redrive workers
      redrive workers --json
    """

    async def look(broker: Broker) -> tuple[list[WorkerInfo], list[QueueInfo]]:
        async with open_history(broker) as history:
            return await history.workers(), await history.unread()

    found, unread = with_broker(connection, look)
    names = [queue.name for queue in unread if not is_own_queue(queue.name)]
    if connection.as_json:
        console.print_json({"workers": [views.worker_view(worker) for worker in found], "unread": names})
        return
    if found:
        print_table(_table(found))
    else:
        console.say("no workers are running; start one: redrive worker MODULE:WORKER")
    if names:
        console.warn(f"{count(len(names), 'queue')} with messages, and none received for 10 minutes: {some(names)}")


def _table(found: list[WorkerInfo]) -> Table:
    right = ("pid", "busy", "handled", "p95", "since", "seen")
    made = table(
        "worker", "host", "pid", "queues", "busy", "handled", "p95", "since", "seen", right=right, long=("queues",)
    )
    for worker in found:
        made.add_row(
            Text(one_line(worker.name)),
            Text(one_line(worker.host)),
            str(worker.pid),
            Text(one_line(", ".join(worker.queues))),
            f"{worker.in_flight:,}/{worker.concurrency:,}",
            f"{worker.handled:,}",
            "-" if worker.p95_s is None else f"{worker.p95_s:.3g} s",
            age(worker.since),
            age(worker.seen_at),
        )
    return made
