# SPDX-License-Identifier: MIT
"""Requests that people of the server can direct anywhere must not reach what only the server can reach.

A name is resolved once, its addresses are checked, and the request goes to the address that was checked: a name that
has another address a moment later (DNS rebinding) leads nowhere else.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from redrive.errors import InvalidSetting

if TYPE_CHECKING:
    import httpx

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class AddressRefused(Exception):
    """A name has an address that requests may not go to, or none."""


async def resolved(host: str, port: int) -> list[str]:
    """Return the addresses of a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def networks_of(texts: Sequence[str]) -> list[Network]:
    """Return networks of their texts.

    Raises:
        InvalidSetting: one of them is none.
    """
    try:
        return [ipaddress.ip_network(each) for each in texts]
    except ValueError:
        problem = "must be a list of addresses or networks: 10.0.0.0/8"
        raise InvalidSetting("private_networks", list(texts), problem) from None


def is_allowed(address: Address, networks: Sequence[Network]) -> bool:
    """Say whether requests may go to an address: one of the internet, or of a network that is allowed. Pure."""
    if any(address in each for each in networks):
        return True
    inner = _inner(address)
    if inner is not None:
        return is_allowed(inner, networks)
    return address.is_global and not address.is_multicast


def _inner(address: Address) -> Address | None:
    """Return the address of the old kind that a new one stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(address.packed[12:])
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


async def pinned_request(
    client: "httpx.AsyncClient",
    url: str,
    headers: dict[str, str],
    body: bytes,
    *,
    networks: Sequence[Network],
    resolve: Resolve = resolved,
) -> "httpx.Request":
    """Return a request to the address that a URL has now, if requests may go there.

    Raises:
        AddressRefused: they may not; it says why.
        OSError: the name cannot be resolved.
    """
    parts = urlsplit(url)
    host = str(parts.hostname)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found = [ipaddress.ip_address(each.partition("%")[0]) for each in await resolve(host, port)]
    refused = [each for each in found if not is_allowed(each, networks)]
    if refused or not found:
        problem = f"{host} is {refused[0]}, an address that is not public" if refused else f"{host} has no address"
        raise AddressRefused(f"{problem}; to allow it, add its network to private_networks in redrive.toml")
    there = f"[{found[0]}]" if found[0].version == 6 else str(found[0])
    target = parts._replace(netloc=f"{there}:{port}").geturl()
    extensions = {"sni_hostname": host}  # the certificate must be that of the name
    return client.build_request(
        "POST", target, headers={**headers, "host": parts.netloc}, content=body, extensions=extensions
    )
