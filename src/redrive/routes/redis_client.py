# SPDX-License-Identifier: MIT
"""The client of Redis and Valkey, which the receiver and the sender share."""

from importlib import import_module
from typing import Any, Final, TypeAlias

from redrive.errors import MissingExtra
from redrive.parts import ServerUrlSetting

RedisClient: TypeAlias = Any
"""``redis.asyncio.Redis``, whose types change with every release of the library."""

REDIS_URL: Final = ServerUrlSetting(("redis", "rediss", "unix"), 6379, "redis://user:password@host:6379/0")


def redis_address(url: str, stream: str) -> str:
    """Return what names a stream: host, port, the database unless it is 0, and the name."""
    server = REDIS_URL.server(url)
    database = "" if server.startswith(("env:", "/")) else url.partition("?")[0].partition("://")[2].partition("/")[2]
    return "/".join((server, *([database] if database.strip("0") else []), stream))


def require_redis() -> None:
    """See that the library is installed.

    Raises:
        MissingExtra: it is not.
    """
    try:
        import_module("redis.asyncio")
    except ImportError as error:
        raise MissingExtra("Redis Streams", "redis") from error


def redis_client(url: str, timeout: float) -> RedisClient:
    """Return a client, which connects when it is used and whenever it has lost its connection.

    It tries every command once: the callers know what may be tried again, and when.

    Args:
        url: the real URL.
        timeout: seconds to wait for an answer.
    """
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    return Redis.from_url(
        url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=Retry(NoBackoff(), 0), decode_responses=False
    )
