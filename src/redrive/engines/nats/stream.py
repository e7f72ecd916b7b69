# SPDX-License-Identifier: MIT
"""The stream that holds a namespace: how it is made, and what an existing one must be like."""

import warnings
from typing import Any, Final

from redrive.engines.nats import errors
from redrive.engines.nats.connection import NatsConnection
from redrive.engines.nats.errors import StreamRefusal
from redrive.engines.nats.subjects import Subjects
from redrive.errors import UsageError

_DUPLICATES_NS: Final = 120_000_000_000
_NEEDED: Final = ("allow_atomic", "allow_rollup_hdrs", "allow_msg_ttl", "allow_msg_schedules", "allow_direct")
_NO_PEERS: Final = frozenset((10005, 10074))
"""There are fewer servers than replicas."""


async def ensure_stream(connection: NatsConnection, subjects: Subjects, replicas: int | None) -> None:
    """Create the stream, unless it is there.

    Args:
        connection: the servers.
        subjects: the subjects of the namespace.
        replicas: how many are wanted; None: three, if there are as many servers.

    Raises:
        UsageError: there is one that cannot be used.
    """
    try:
        found: dict[str, Any] | None = await connection.api(f"STREAM.INFO.{subjects.stream}")
    except StreamRefusal as error:
        if error.code != errors.NO_STREAM:
            raise errors.of_refusal(error, connection.where) from error
        found = None
    if found is None:
        found = await _created(connection, subjects, replicas)
    _check(found["config"], connection, subjects, replicas)


async def _created(connection: NatsConnection, subjects: Subjects, replicas: int | None) -> dict[str, Any]:
    wanted = replicas or 3
    try:
        return await connection.api(f"STREAM.CREATE.{subjects.stream}", _config(subjects, wanted))
    except StreamRefusal as error:
        if replicas is not None or error.code not in _NO_PEERS:
            raise _cannot(error, connection, wanted) from error
    try:
        return await connection.api(f"STREAM.CREATE.{subjects.stream}", _config(subjects, 1))
    except StreamRefusal as error:
        raise _cannot(error, connection, 1) from error


def _cannot(error: StreamRefusal, connection: NatsConnection, replicas: int) -> Exception:
    if error.code in _NO_PEERS:
        problem = f"there are fewer than {replicas} servers with JetStream; start more, or ask for fewer replicas"
        return UsageError(f"{connection.where}: {problem} ({error.text})")
    return errors.of_refusal(error, connection.where)


def _config(subjects: Subjects, replicas: int) -> dict[str, Any]:
    return {
        "name": subjects.stream,
        "subjects": [subjects.everything],
        "retention": "limits",
        "storage": "file",
        "discard": "old",  # schedules need that; there is no limit that would discard anything but older versions
        "num_replicas": replicas,
        "duplicate_window": _DUPLICATES_NS,
        **dict.fromkeys(_NEEDED, True),
    }


def _check(config: dict[str, Any], connection: NatsConnection, subjects: Subjects, replicas: int | None) -> None:
    missing = [name for name in _NEEDED if not config.get(name)]
    is_ours = config.get("subjects") == [subjects.everything] and config.get("max_msgs_per_subject") == -1
    if missing or not is_ours or config.get("retention") != "limits":
        problem = f"there is a stream {subjects.stream!r} that is not Redrive's"
        raise UsageError(f"{connection.where}: {problem}; name another namespace: nats://host/namespace")
    found = config.get("num_replicas", 1)
    if replicas is not None and found != replicas:
        problem = f"the stream {subjects.stream!r} has {found} replicas, not {replicas}"
        fix = f"change it: nats stream edit {subjects.stream} --replicas {replicas}; or leave the option out"
        raise UsageError(f"{connection.where}: {problem}; {fix}")
    if found == 1 and replicas is None:
        warnings.warn(
            f"{connection.where} keeps everything once: it is lost with that server's disk; use three servers",
            stacklevel=2,
        )
