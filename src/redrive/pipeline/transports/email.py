# SPDX-License-Identifier: MIT
"""The e-mail transport: each shipment is a message to all recipients, or to none of them.

No server can be asked whether a message has arrived, and none drops a repetition, so the strongest guarantee is
``at_least_once``. Its ``Message-ID`` is made of the delivery id: people can tell.
"""

import asyncio
import smtplib
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP as SMTP_LINES
from email.utils import format_datetime
from typing import ClassVar, Final, Literal

from redrive.broker import DurationSetting, WholeSetting
from redrive.clock import utc
from redrive.errors import InvalidSetting
from redrive.parts import ChoiceSetting, ListSetting, SecretSetting, TextSetting, secret_value, setting
from redrive.pipeline.shipment import (
    DestinationAway,
    OutcomeUnknown,
    ProbeOutcome,
    Shipment,
    ShipmentDelayed,
    ShipmentOutcome,
    ShipmentRefused,
    ShipmentSent,
)
from redrive.pipeline.shipment_names import NameTemplateSetting, name_of, safe_part
from redrive.pipeline.transport import OpenTransport, Transport, TransportEnvironment
from redrive.printable import one_line

_ADDRESS: Final = "must be an address, such as 'reports@example.org'"
_EXCERPT: Final = 200
_CLOSING: Final = 421
_GO_ON: Final = 354


@dataclass(frozen=True, slots=True)
class MailAddressSetting:
    """The address of a person, without a name."""

    def checked(self, name: str, value: object) -> str:
        """Return it."""
        is_plain = (
            isinstance(value, str) and value.isascii() and value.isprintable() and not set(value) & set(" <>,;\"'")
        )
        if not isinstance(value, str) or not is_plain or not all(value.rpartition("@")):
            raise InvalidSetting(name, value, _ADDRESS)
        return value


@dataclass(frozen=True, slots=True)
class EmailTransport(Transport):
    """Sends each shipment as an e-mail: a text as its text, anything else, or with ``attachment``, as a file."""

    kind: ClassVar[str] = "email"

    host: str = setting(TextSetting("must be the name of a host"), "the mail server")
    sender: str = setting(MailAddressSetting(), "whom messages are from")
    to: tuple[str, ...] = setting(ListSetting(MailAddressSetting()), "whom they are for")
    subject: str = setting(TextSetting(), "what they are about", "Report")
    attachment: str | None = setting(NameTemplateSetting(), "what the file is called that a message has", None)
    port: int = setting(WholeSetting(1, 65_535), "the port of the mail server", 587)
    tls: Literal["starttls", "tls", "none"] = setting(
        ChoiceSetting(("starttls", "tls", "none")), "how the connection is encrypted", "starttls"
    )
    username: str | None = setting(TextSetting(), "who logs in; None: no login", None)
    password: str | None = setting(SecretSetting(), "the password", None)
    timeout: float = setting(DurationSetting(3_600.0), "how long the mail server may take for all of it", 60.0)

    @property
    def address(self) -> str:
        """The mail server."""
        return f"smtp://{self.host}:{self.port}"

    def check(self) -> None:
        """See that there is an address to write to, and that no password is sent for all to read."""
        if not self.to:
            raise InvalidSetting("to", (), "must have one address at least")
        if not self.subject.isprintable():
            raise InvalidSetting("subject", self.subject, "must be one line")
        if (self.username is None) != (self.password is None):
            raise InvalidSetting("username", self.username, "must be given with a password, or neither of them")
        if self.password is not None and self.tls == "none":
            raise InvalidSetting("tls", self.tls, "must be starttls or tls: a password is not sent for all to read")

    def open(self, environment: TransportEnvironment) -> OpenTransport:
        """Return the transport at work; nothing is connected before it is needed.

        Raises:
            InvalidSetting: an environment variable that it needs is not there.
        """
        return _OpenEmailTransport(self, environment)


def message_of(settings: EmailTransport, shipment: Shipment, now: float) -> EmailMessage:
    """Return the message of a shipment.

    Raises:
        InvalidSetting: its file cannot have such a name.
    """
    message = EmailMessage(SMTP_LINES)
    message["From"], message["To"], message["Subject"] = settings.sender, ", ".join(settings.to), settings.subject
    message["Date"] = format_datetime(utc(now))
    message["Message-ID"] = f"<{safe_part(shipment.delivery_id)}@{settings.sender.rpartition('@')[2]}>"
    main, _, sub = (shipment.content_type or "application/octet-stream").partition(";")[0].strip().partition("/")
    text = _text(shipment.body) if main == "text" and settings.attachment is None else None
    if text is not None:
        message.set_content(text, subtype=sub or "plain", cte="base64")
        return message
    name = safe_part(shipment.delivery_id)
    if settings.attachment is not None:
        name = name_of("attachment", settings.attachment, shipment)
    message.set_content("")
    message.add_attachment(shipment.body, maintype=main or "application", subtype=sub or "octet-stream", filename=name)
    return message


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


class _Refusal(Exception):
    """What a mail server answers instead of what was hoped for."""

    def __init__(self, code: int, said: bytes, about: str) -> None:
        super().__init__(one_line(f"{about}: {code} {said.decode(errors='replace')}", _EXCERPT))
        self.code = code


class _OpenEmailTransport:
    """A mail server that shipments are given to, each on a connection of its own and in a thread."""

    def __init__(self, settings: EmailTransport, environment: TransportEnvironment) -> None:
        self._settings = settings
        self._clock = environment.clock
        self._password = secret_value("password", settings.password)

    async def send(self, shipment: Shipment) -> ShipmentOutcome:
        try:
            message = message_of(self._settings, shipment, self._clock.time())
        except (InvalidSetting, ValueError, LookupError) as error:
            return ShipmentRefused(f"no message can be made of it: {one_line(error, _EXCERPT)}")
        conversation = _Conversation(self._settings, self._password, message)
        talking = asyncio.ensure_future(asyncio.to_thread(conversation.run))
        try:
            async with self._clock.timeout(self._settings.timeout):
                return await asyncio.shield(talking)
        except TimeoutError:
            conversation.hang_up()
            outcome = await talking  # it ends soon, and then it is known how far it came
            if isinstance(outcome, DestinationAway | OutcomeUnknown):
                return conversation.lost(f"no answer after {self._settings.timeout:g} s")
            return outcome
        except asyncio.CancelledError:
            conversation.hang_up()
            raise

    async def probe(self, shipment: Shipment) -> ProbeOutcome:
        return OutcomeUnknown("no server can be asked whether a message has arrived")

    async def close(self) -> None:
        return


class _Conversation:
    """One message, from the greeting to its end. It knows how far it has come."""

    def __init__(self, settings: EmailTransport, password: str | None, message: EmailMessage) -> None:
        self._settings = settings
        self._password = password
        self._message = message
        self._smtp: smtplib.SMTP | None = None
        self._has_hung_up = False
        self._is_ready = False
        self._has_left = False
        self._has_arrived = False

    def run(self) -> ShipmentOutcome:
        """Give the message to the server, and return what came of it."""
        try:
            self._begin()
            self._is_ready = True
            return self._give()
        except _Refusal as error:
            return self._refused(error)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, what counts is how far the message has come
            return self.lost(one_line(error, _EXCERPT) or type(error).__name__)
        finally:
            if self._smtp is not None:
                self._smtp.close()

    def hang_up(self) -> None:
        """End it from outside: what waits for the server wakes up."""
        self._has_hung_up = True
        line = getattr(self._smtp, "sock", None)
        if isinstance(line, socket.socket):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def lost(self, problem: str) -> ShipmentOutcome:
        """Return what came of it if there is no answer."""
        reason = f"{self._settings.address}: {problem}"
        if self._has_arrived:
            return ShipmentSent(self._message["Message-ID"])
        return OutcomeUnknown(reason) if self._has_left else DestinationAway(reason)

    def _begin(self) -> None:
        """Connect, encrypt and log in."""
        settings = self._settings
        if settings.tls == "tls":
            self._smtp = smtplib.SMTP_SSL(timeout=settings.timeout, context=ssl.create_default_context())
        else:
            self._smtp = smtplib.SMTP(timeout=settings.timeout)
        self._smtp._host = settings.host  # type: ignore[attr-defined]  # pyright: ignore - what the name in a certificate is compared with
        self._expect(self._smtp.connect(settings.host, settings.port), "the greeting")
        if self._has_hung_up:
            raise TimeoutError
        self._expect(self._smtp.ehlo(), "EHLO")
        if settings.tls == "starttls":
            self._expect(self._smtp.starttls(context=ssl.create_default_context()), "STARTTLS")
            self._expect(self._smtp.ehlo(), "EHLO")
        if settings.username is not None and self._password is not None:
            self._smtp.login(settings.username, self._password)

    def _give(self) -> ShipmentOutcome:
        assert self._smtp is not None  # noqa: S101 - it was connected
        self._expect(self._smtp.mail(self._settings.sender), "the sender")
        for each in self._settings.to:
            self._expect(self._smtp.rcpt(each), each)
        code, said = self._smtp.docmd("DATA")
        if code != _GO_ON:
            raise _Refusal(code, said, "DATA")
        self._has_left = True
        self._smtp.send(stuffed(self._message.as_bytes()))
        self._expect(self._smtp.getreply(), "the message")
        self._has_arrived = True
        with suppress(OSError, smtplib.SMTPException):
            self._smtp.quit()
        return ShipmentSent(self._message["Message-ID"])

    def _expect(self, answer: tuple[int, bytes], about: str) -> None:
        code, said = answer
        if not 200 <= code <= 299:
            raise _Refusal(code, said, about)

    def _refused(self, error: _Refusal) -> ShipmentOutcome:
        if not self._is_ready or error.code == _CLOSING:
            return DestinationAway(f"{self._settings.address}: {error}")
        if error.code < 0:  # no answer that could be read
            return self.lost(str(error))
        return ShipmentRefused(str(error)) if 500 <= error.code <= 599 else ShipmentDelayed(str(error))


def stuffed(message: bytes) -> bytes:
    """Return a message as DATA takes it: a line that begins with a dot gets another one, and a dot ends it."""
    lines = message.replace(b"\r\n.", b"\r\n..")
    lines = b"." + lines if lines.startswith(b".") else lines
    return lines.removesuffix(b"\r\n") + b"\r\n.\r\n"
