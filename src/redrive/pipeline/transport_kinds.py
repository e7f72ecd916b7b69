# SPDX-License-Identifier: MIT
"""Which kinds of transports there are, by the names that files use; packages add theirs as ``redrive.transports``."""

from typing import Final, TypeVar

from redrive.errors import UsageError
from redrive.parts import PartKinds
from redrive.parts.part import Table
from redrive.pipeline.transport import Transport

T = TypeVar("T", bound=Transport)

_OWN: Final = {
    "call": "call:CallTransport",
    "email": "email:EmailTransport",
    "file": "file:FileTransport",
    "http": "http:HttpTransport",
    "queue": "queue:QueueTransport",
    "s3": "s3:S3Transport",
    "sftp": "sftp:SftpTransport",
    "topic": "queue:TopicTransport",
}
_transports: Final = PartKinds("transports", "redrive.pipeline.transports", _OWN, Transport)


def add_transport(transport: type[T]) -> type[T]:
    """Make a class of this program known by its ``kind``, so that pipelines can be stored and read; a decorator."""
    if not isinstance(transport.kind, str) or not transport.kind:
        raise UsageError(f"{transport!r} must be a Transport with a kind")
    _transports.add(transport)
    return transport


def transport_of(table: Table) -> Transport:
    """Return the transport that a table describes."""
    return _transports.part_of(table)


def transport_kinds() -> tuple[str, ...]:
    """Return the names of all kinds."""
    return _transports.names()
