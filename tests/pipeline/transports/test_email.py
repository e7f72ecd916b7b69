# SPDX-License-Identifier: MIT
"""The e-mail transport, with a real server that fails at every step."""

import asyncio
import datetime as dt
import ipaddress
import socket
import ssl
from email import message_from_bytes, policy

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from redrive.errors import InvalidSetting
from redrive.pipeline.shipment import DestinationAway, OutcomeUnknown, ShipmentDelayed, ShipmentRefused, ShipmentSent
from redrive.pipeline.transports.email import EmailTransport, stuffed
from redrive.testing import ManualClock
from tests.pipeline.transports.mail_server import MailServer
from tests.pipeline.transports.shipments import check_truth, environment, shipment

ID = f"<{shipment().delivery_id}@example.org>"
STEPS = ["EHLO", "MAIL", "RCPT", "DATA", "message"]


@pytest.fixture
async def server():
    server = MailServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def opened(server, clock):
    """Return a transport to the server at work."""

    def make(**settings):
        usual = {"host": "127.0.0.1", "port": server.port, "tls": "none", "sender": "reports@example.org"}
        return EmailTransport(**usual | {"to": ["lab@example.net"]} | settings).open(environment(clock))

    return make


async def after_the_time(sending, server, clock):
    """Return the outcome of a send whose time passes when the server is silent."""
    sending, failed = asyncio.ensure_future(sending), asyncio.ensure_future(server.has_failed.wait())
    await asyncio.wait({sending, failed}, return_when=asyncio.FIRST_COMPLETED)
    failed.cancel()
    if "hang" in (server.fault or "") and not sending.done():
        clock.advance(60)
    return await sending


def read(raw):
    return message_from_bytes(raw, policy=policy.SMTP)


async def test_a_text_is_the_text_of_a_message(opened, server, clock):
    transport = opened(subject="Reports of today", to=["lab@example.net", "office@example.net"])
    assert await transport.send(
        shipment(content_type="text/plain; charset=utf-8", body="Größe\n.\n..x\n".encode())
    ) == (ShipmentSent(ID))
    ((to, raw),) = server.messages
    message = read(raw)
    assert to == ("lab@example.net", "office@example.net")
    assert (message["From"], message["Subject"]) == ("reports@example.org", "Reports of today")
    assert (message["To"], message["Message-ID"]) == ("lab@example.net, office@example.net", ID)
    assert message["Date"].datetime.timestamp() == int(clock.time())
    assert message.get_content().replace("\r\n", "\n") == "Größe\n.\n..x\n"
    await transport.close()


@pytest.mark.parametrize(
    ("attachment", "made", "kind"),
    [
        ("{pipeline}-{task}.csv", {}, "text/csv"),
        (None, {"content_type": None}, "application/octet-stream"),
        (None, {"content_type": "application/pdf"}, "application/pdf"),
        (None, {"body": b"\xff\xfe"}, "text/csv"),
        (None, {"content_type": "nonsense"}, "nonsense/octet-stream"),
    ],
)
async def test_anything_else_is_a_file(opened, server, attachment, made, kind):
    it = shipment(**made)
    assert isinstance(await opened(attachment=attachment).send(it), ShipmentSent)
    name = "reports-t-1.csv" if attachment else shipment().delivery_id
    (file,) = read(server.messages[0][1]).iter_attachments()
    assert (file.get_filename(), file.get_content_type()) == (name, kind)
    assert file.get_payload(decode=True) == it.body


def test_a_line_that_begins_with_a_dot_does_not_end_a_message():
    assert stuffed(b".a\r\n.\r\nb.\r\n") == b"..a\r\n..\r\nb.\r\n.\r\n"
    assert stuffed(b"a") == b"a\r\n.\r\n"


async def test_lines_that_begin_with_a_dot_arrive(opened, server):
    body = b".\r\n..\r\n.x\r\n" * 3
    await opened(attachment="{task}.txt").send(shipment(body=body, content_type="application/x"))
    (file,) = read(server.messages[0][1]).iter_attachments()
    assert file.get_payload(decode=True) == body


# --- faults


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", ["drop_before", "drop_after", "hang_before", "hang_after"])
async def test_whatever_is_lost_the_outcome_is_true(opened, server, clock, step, fault):
    server.fail(step, fault)
    outcome = await after_the_time(opened().send(shipment()), server, clock)
    assert server.step is None, "it has not come to that"
    check_truth(outcome, has_arrived=bool(server.messages))
    if step == "message" or (step, fault) in {("DATA", "drop_after"), ("DATA", "hang_after")}:
        assert isinstance(outcome, OutcomeUnknown | ShipmentSent)
    else:
        assert isinstance(outcome, DestinationAway)
    assert bool(server.messages) == (
        (step, fault) in {("message", "drop_after"), ("message", "hang_after")}
        or (step == "DATA" and fault.endswith("after"))
    )


@pytest.mark.parametrize("step", ["MAIL", "RCPT", "DATA", "message"])
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("550 no", ShipmentRefused),
        ("554 never", ShipmentRefused),
        ("450 later", ShipmentDelayed),
        ("452 full", ShipmentDelayed),
        ("421 closing", DestinationAway),
    ],
)
async def test_an_answer_is_what_it_says(opened, server, step, answer, kind):
    server.fail(step, answer)
    outcome = await opened().send(shipment())
    assert type(outcome) is kind
    assert answer in outcome.reason
    assert server.messages == []


@pytest.mark.parametrize("answer", ["550 no", "450 later", "421 closing"])
async def test_a_server_that_does_not_begin_is_away(opened, server, answer):
    server.fail("EHLO", answer)
    assert isinstance(await opened().send(shipment()), DestinationAway)


async def test_all_recipients_get_it_or_none(opened, server):
    server.fail("RCPT", "550 unknown")
    outcome = await opened(to=["gone@example.net", "lab@example.net"]).send(shipment())
    assert isinstance(outcome, ShipmentRefused)
    assert "gone@example.net" in outcome.reason
    assert server.messages == []


async def test_what_happens_after_the_answer_does_not_count(opened, server):
    server.fail("QUIT", "drop_before")
    assert await opened().send(shipment()) == ShipmentSent(ID)


async def test_a_server_that_is_not_there_is_away(opened):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listened at
        assert isinstance(await opened(port=taken.getsockname()[1]).send(shipment()), DestinationAway)


async def test_a_send_that_is_cancelled_is_cancelled(opened, server):
    server.fail("MAIL", "hang_before")
    sending = asyncio.ensure_future(opened().send(shipment()))
    await server.has_failed.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert server.messages == []


async def test_nobody_can_be_asked(opened):
    assert isinstance(await opened().probe(shipment()), OutcomeUnknown)


async def test_a_name_that_no_file_can_have_is_refused(opened, server):
    assert isinstance(await opened(attachment="{slot}.csv").send(shipment()), ShipmentRefused)
    assert server.messages == []


# --- encryption and passwords


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Return the path of a certificate for 127.0.0.1, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail.example")])
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start.replace(year=2120))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "mail.pem"
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(plain + built.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
async def safe_server(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = MailServer(tls_context=context, require_starttls=True, auth_required=True)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def safely(safe_server, opened, monkeypatch):
    monkeypatch.setenv("LAB_PASSWORD", "geheim")

    def make(**settings):
        login = {"username": "lab", "password": "env:LAB_PASSWORD"}
        return opened(**{"port": safe_server.port, "tls": "starttls", **login} | settings)

    return make


async def test_a_connection_is_encrypted_before_anything_is_said(safely, safe_server, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert await safely().send(shipment()) == ShipmentSent(ID)
    assert len(safe_server.messages) == 1


async def test_a_server_that_nobody_vouches_for_gets_nothing(safely, safe_server):
    outcome = await safely().send(shipment())
    assert isinstance(outcome, DestinationAway)
    assert "certificate" in outcome.reason.lower()
    assert safe_server.messages == []


async def test_a_wrong_password_is_away(safely, safe_server, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("LAB_PASSWORD", "wrong")
    outcome = await safely().send(shipment())
    assert isinstance(outcome, DestinationAway)
    assert "wrong" not in outcome.reason
    assert safe_server.messages == []


async def test_a_server_without_encryption_gets_nothing(opened, server):
    assert isinstance(await opened(tls="starttls").send(shipment()), DestinationAway)
    assert isinstance(await opened(tls="tls").send(shipment()), DestinationAway)
    assert server.messages == []


# --- settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"to": []}, {"to": "a@b"}, {"to": ["a b@c"]}, {"to": ["a"]}, {"to": ["a@b\nBcc: c@d"]}, {"sender": "A <a@b>"},
        {"subject": "a\nb"}, {"subject": ""}, {"username": "a"}, {"password": "env:A"}, {"tls": "maybe"}, {"port": 0},
        {"username": "a", "password": "geheim"}, {"username": "a", "password": "env:A", "tls": "none"},
        {"attachment": "../{task}"}, {"host": ""},
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused(wrong):
    with pytest.raises(InvalidSetting) as caught:
        EmailTransport(**{"host": "mail.example", "sender": "a@b", "to": ["c@d"]} | wrong)
    assert "geheim" not in str(caught.value)


def test_what_it_is_called_and_what_it_can():
    made = EmailTransport("mail.example", sender="a@b", to=["c@d"])
    assert made.address == "smtp://mail.example:587"
    assert not made.deduplicates
    assert not made.can_probe
    assert EmailTransport.from_table(made.to_table()) == made
