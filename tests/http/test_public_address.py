# SPDX-License-Identifier: MIT
"""Which addresses requests may go to, and that they go to the one that was checked."""

import ipaddress

import httpx
import pytest

from redrive.errors import InvalidSetting
from redrive.http.public_address import AddressRefused, is_allowed, networks_of, pinned_request, resolved

PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.1.2.3", "224.0.0.1",
    "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "64:ff9b::a00:1", "2002:a00:1::", "198.18.0.1", "192.0.2.1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused_unless_its_network_is_allowed(address):
    found = ipaddress.ip_address(address)
    assert not is_allowed(found, [])
    assert is_allowed(found, [ipaddress.ip_network(found)])


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:220:1::1", "::ffff:93.184.215.14"])
def test_a_public_address_is_allowed(address):
    assert is_allowed(ipaddress.ip_address(address), [])


def test_an_old_address_that_is_allowed_is_allowed_in_its_new_form():
    assert is_allowed(ipaddress.ip_address("::ffff:10.0.0.1"), networks_of(["10.0.0.0/8"]))
    with pytest.raises(InvalidSetting):
        networks_of(["office"])


def named(*addresses):
    async def resolve(_host, _port):
        return addresses

    return resolve


async def request(url, *addresses, networks=()):
    async with httpx.AsyncClient() as client:
        return await pinned_request(client, url, {"a": "b"}, b"x", networks=networks, resolve=named(*addresses))


async def test_a_request_goes_to_the_address_that_was_checked_with_the_name_of_the_url():
    made = await request("https://hooks.example.com/a?b=1", "93.184.215.14")
    assert str(made.url) == "https://93.184.215.14:443/a?b=1" or str(made.url) == "https://93.184.215.14/a?b=1"
    assert (made.headers["host"], made.extensions["sni_hostname"]) == ("hooks.example.com", "hooks.example.com")
    assert (await request("http://h.example.com:81/", "2606:2800:220:1::1")).url.host == "2606:2800:220:1::1"


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["fe80::1%eth0"], []])
async def test_a_name_with_an_address_that_is_not_public_is_refused(addresses):
    with pytest.raises(AddressRefused, match=r"private_networks|no address"):
        await request("https://hooks.example.com/", *addresses)


async def test_an_address_in_the_url_is_checked_too():
    assert await resolved("127.0.0.1", 80) == ["127.0.0.1"]
