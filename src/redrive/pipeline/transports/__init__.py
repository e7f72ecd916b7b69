# SPDX-License-Identifier: MIT
"""The transports that come with Redrive, and which kinds there are by the names that files use.

A kind is loaded when it is used. A program adds its own with ``add_transport``. Packages add kinds with entry points in
the group ``redrive.transports``: the name of the entry point is the kind, and its object the class.
"""

from typing import Final, TypeVar

from redrive.errors import UsageError
from redrive.parts import PartKinds, Table
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
_kinds: Final[PartKinds[Transport]] = PartKinds("transports", "redrive.pipeline.transports", _OWN, Transport)


def add_transport(part: type[T]) -> type[T]:
    """Make a class of this program known by its ``kind``, so that files can name it; for use as decorator.

    Every process that runs such a pipeline must have added the kind.
    """
    if not (isinstance(part, type) and _kinds.holds(part)) or not isinstance(part.kind, str) or not part.kind:
        raise UsageError(f"{part!r} must be a Transport with a kind")
    _kinds.add(part)
    return part


def transport_of(table: Table) -> Transport:
    """Return the transport that a table describes.

    Raises:
        InvalidSetting: there is no such kind, or a setting has a value that is not allowed.
        UnknownSetting: the kind has no such setting.
    """
    return _kinds.part_of(table)


def transport_kinds() -> tuple[str, ...]:
    """Return the names of all kinds."""
    return _kinds.names()


def transport_class(kind: str) -> type[Transport]:
    """Return the class of a kind.

    Raises:
        InvalidSetting: there is no such kind.
        UsageError: a package has added it, and it cannot be loaded, or is no transport.
    """
    return _kinds.class_of(kind)
