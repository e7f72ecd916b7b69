# SPDX-License-Identifier: MIT
"""Clients: which certificates they trust, and how often they are read."""

import subprocess
import sys

import httpx
import pytest

from redrive.http import client
from redrive.remote import ServerConnection

READS = """
import asyncio, ssl
from redrive.http import client
from redrive.remote import ServerConnection

reads, read = [], ssl.SSLContext.load_verify_locations

def counted(self, *places, **more):
    reads.append(places)
    return read(self, *places, **more)

ssl.SSLContext.load_verify_locations = counted

async def main():
    for made in ({made}):
        async with made:
            pass
    print(len(reads))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("made", "reads"),
    [
        ("client.new_client(1), client.new_client(2), ServerConnection('https://redrive.example.com')", 1),
        ("client.new_client(1, verify_tls=False), ServerConnection('http://127.0.0.1:8484')", 0),
    ],
    ids=["tls", "no-tls"],
)
def test_certificates_are_read_once_and_only_if_they_are_needed(made, reads):
    ran = subprocess.run([sys.executable, "-c", READS.format(made=made)], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == (f"{reads}\n", "")


async def test_without_tls_no_certificate_is_trusted_either():
    """A request to an address with TLS would be refused, not made without a check."""
    async with ServerConnection("http://127.0.0.1:8484") as server:
        context = server._client._transport._pool._ssl_context
        assert (context.verify_mode.name, context.check_hostname, context.get_ca_certs()) == ("CERT_REQUIRED", True, [])


def test_what_is_trusted_is_what_httpx_trusts():
    assert client.trusted_tls().get_ca_certs() == httpx.create_ssl_context().get_ca_certs()
