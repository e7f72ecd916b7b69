# SPDX-License-Identifier: MIT
"""What the history counts of pipelines. Pure: no I/O, no clock."""

from typing import TYPE_CHECKING

from redrive.broker import tallies

if TYPE_CHECKING:
    from redrive.telemetry import Event


def key_of(event: "Event") -> tallies.Key | None:
    """Return what an event about sending counts as; None for every other event.

    A task that was sent is sent; one whose outcome is unknown is unknown; one that is not tried again is dead, and an
    attempt that is followed by another has failed.
    """
    if getattr(event, "stage", None) != "send":
        return None
    fields = event.fields()
    if not fields.get("destination"):
        return None
    name = f"{fields['pipeline']}/{fields['destination']}"
    if "reason" not in fields:
        return tallies.DESTINATION, name, tallies.SENT
    if fields["action"] == "send_unknown":
        return tallies.DESTINATION, name, tallies.UNKNOWN
    return tallies.DESTINATION, name, tallies.DEAD if fields["delay"] is None else tallies.FAILED
