# SPDX-License-Identifier: MIT
"""The SFTP transport: each shipment is a file, which is uploaded under another name and then renamed.

Until it is renamed, the destination does not have it. The answer to the renaming may be lost: then it is unknown, and a
look at the name tells. A file that has the name is never replaced.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from redrive.broker import DurationSetting, WholeSetting
from redrive.errors import InvalidSetting, MissingExtra
from redrive.parts import SecretSetting, TextSetting, secret_value, setting
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
from redrive.pipeline.shipment_names import NameTemplateSetting, name_of, temporary_name, temporary_names
from redrive.pipeline.transport import OpenTransport, TransportEnvironment
from redrive.pipeline.transports import sftp_files
from redrive.pipeline.transports.placed import PlacedTransport, absent, displaced, taken
from redrive.printable import one_line

if TYPE_CHECKING:
    from asyncssh import SFTPClient, SSHClientConnection

_EXCERPT: Final = 200
_MOST_IDLE: Final = 4
"""How many connections are kept between shipments."""


@dataclass(frozen=True, slots=True)
class SftpTransport(PlacedTransport):
    """Uploads each shipment to a server, as a file that gets its name when it is whole.

    The server's key must be known: ``known_hosts`` is a file as OpenSSH has it, ``host_key`` one key, such as
    ``ssh-ed25519 AAAA…``. ``password``, ``private_key`` and ``passphrase`` are ``env:`` and the name of an environment
    variable; ``key_file`` is the path of a private key. Neither an agent nor the keys and settings of the user who runs
    this are used.
    """

    kind: ClassVar[str] = "sftp"

    host: str = setting(TextSetting("must be the name of a host"), "the server")
    username: str = setting(TextSetting("must be the name of a user"), "who logs in")
    folder: str = setting(
        TextSetting("must be the path of a folder there"), "where files are put; it must be there", "."
    )
    name: str = setting(
        NameTemplateSetting(), "what files are called; the slot is in UTC", "{pipeline}-{destination}-{task}-{index}"
    )
    port: int = setting(WholeSetting(1, 65_535), "the port of the server", 22)
    known_hosts: str | None = setting(TextSetting("must be the path of a file"), "the keys of servers", None)
    host_key: str | None = setting(TextSetting("must be a public key"), "the key of the server", None)
    password: str | None = setting(SecretSetting(), "the password", None)
    private_key: str | None = setting(SecretSetting(), "the private key itself", None)
    key_file: str | None = setting(TextSetting("must be the path of a file"), "where the private key is", None)
    passphrase: str | None = setting(SecretSetting(), "what the private key is encrypted with", None)
    timeout: float = setting(DurationSetting(3_600.0), "how long the server may take for one shipment", 60.0)

    @property
    def address(self) -> str:
        """The server."""
        return f"sftp://{self.host}:{self.port}"

    def check(self) -> None:
        """See that the server can be recognised, and that there is a way to log in."""
        if (self.known_hosts is None) == (self.host_key is None):
            raise InvalidSetting("known_hosts", self.known_hosts, "must be given, or host_key instead: one of them")
        if self.password is None and self.private_key is None and self.key_file is None:
            raise InvalidSetting("password", None, "must be given, or private_key or key_file")
        if self.private_key is not None and self.key_file is not None:
            raise InvalidSetting("key_file", self.key_file, "must not be given beside private_key")

    def open(self, environment: TransportEnvironment) -> OpenTransport:
        """Return the transport at work; nothing is connected before it is needed.

        Raises:
            InvalidSetting: a key, a file or an environment variable that it needs is not there or cannot be used.
            MissingExtra: asyncssh is not installed.
        """
        if find_spec("asyncssh") is None:  # better here than at the first shipment
            raise MissingExtra("the SFTP transport", "sftp")
        return _OpenSftpTransport(self, environment)


def _options(settings: SftpTransport) -> dict[str, Any]:
    """Return how to connect: with what the settings say, and nothing that this machine has beside it."""
    import asyncssh

    known: object = settings.known_hosts
    if settings.host_key is not None:
        known = ([_usable("host_key", asyncssh.import_public_key, settings.host_key)], [], [])
    elif not Path(settings.known_hosts or "").is_file():
        raise InvalidSetting("known_hosts", settings.known_hosts, "must be a file that is there")
    passphrase = secret_value("passphrase", settings.passphrase)
    key = secret_value("private_key", settings.private_key)
    keys: list[object] | None = None
    if key is not None:
        keys = [_usable("private_key", asyncssh.import_private_key, key, passphrase)]
    elif settings.key_file is not None:
        keys = [_usable("key_file", asyncssh.read_private_key, settings.key_file, passphrase)]
    return {
        "port": settings.port,
        "username": settings.username,
        "password": secret_value("password", settings.password),
        "client_keys": keys,
        "known_hosts": known,
        "config": None,
        "agent_path": None,
        "gss_host": None,
        "keepalive_interval": 30,
        "login_timeout": 0,  # the time limit of the whole counts
        "connect_timeout": 0,
    }


def _usable(name: str, read: Callable[..., object], *given: object) -> object:
    try:
        return read(*given)
    except Exception as error:  # noqa: BLE001 - whatever asyncssh makes of it
        raise InvalidSetting(name, "***", f"must be a key that can be used: {one_line(error, _EXCERPT)}") from None


class _Upload:
    """How far a shipment has come."""

    def __init__(self) -> None:
        self.may_be_there = False
        self.outcome: ShipmentOutcome | None = None


class _OpenSftpTransport:
    """A server that files are uploaded to. Each shipment has a connection for itself, which the next one gets."""

    def __init__(self, settings: SftpTransport, environment: TransportEnvironment) -> None:
        self._settings = settings
        self._clock = environment.clock
        self._options = _options(settings)
        self._idle: list[tuple[SSHClientConnection, SFTPClient]] = []

    async def send(self, shipment: Shipment) -> ShipmentOutcome:
        upload = _Upload()
        try:
            name = name_of("name", self._settings.name, shipment)
            async with self._clock.timeout(self._settings.timeout), self._connected() as sftp:
                return await self._put(sftp, name, shipment, upload)
        except InvalidSetting as error:
            return ShipmentRefused(str(error))
        except TimeoutError:
            return self._lost(upload, f"no answer after {self._settings.timeout:g} s")
        except Exception as error:  # noqa: BLE001 - whatever went wrong, what counts is how far it has come
            problem = one_line(error, _EXCERPT) or type(error).__name__
            if sftp_files.is_answer(error) and not upload.may_be_there:
                return ShipmentDelayed(f"{self._settings.address}: {problem}")
            return self._lost(upload, problem)

    async def probe(self, shipment: Shipment) -> ProbeOutcome:
        try:
            path = self._path(name_of("name", self._settings.name, shipment))
            async with self._clock.timeout(self._settings.timeout), self._connected() as sftp:
                found = await sftp_files.look(sftp, path, shipment.body)
        except Exception as error:  # noqa: BLE001 - nothing is known then
            return OutcomeUnknown(f"{self._settings.address}: {one_line(error, _EXCERPT) or type(error).__name__}")
        outcomes: dict[sftp_files.Look, ProbeOutcome] = {
            "same": ShipmentSent(path),
            "absent": absent(path),
            "other": displaced(path),
            "hidden": OutcomeUnknown(f"{self._settings.address}: the server does not let this user look"),
        }
        return outcomes[found]

    async def close(self) -> None:
        closing, self._idle = self._idle, []
        for connection, _ in closing:
            connection.abort()
        for connection, _ in closing:
            await connection.wait_closed()

    async def _put(self, sftp: "SFTPClient", name: str, shipment: Shipment, upload: _Upload) -> ShipmentOutcome:
        target, part = self._path(name), self._path(temporary_name(name, shipment.attempt))
        found = await sftp_files.look(sftp, target, shipment.body)
        if found in ("absent", "hidden"):
            await sftp_files.write(sftp, part, shipment.body)
            upload.may_be_there = True
            found = await sftp_files.rename(sftp, part, target, shipment.body)
        upload.outcome = self._outcome(found, target)
        for each in temporary_names(name, shipment.attempt):  # what attempts have left, whose connection died
            await sftp_files.remove(sftp, self._path(each))
        return upload.outcome

    def _outcome(self, found: sftp_files.Look, target: str) -> ShipmentOutcome:
        if found in ("absent", "hidden"):
            return ShipmentDelayed(f"{self._settings.address}: the file cannot be renamed to {target}")
        return taken(target) if found == "other" else ShipmentSent(target)

    @asynccontextmanager
    async def _connected(self) -> "AsyncGenerator[SFTPClient]":
        """Give a connection that works; it is kept if the server has answered everything."""
        connection, sftp = await self._connection()
        try:
            yield sftp
        except BaseException as error:
            if sftp_files.is_answer(error):
                self._keep(connection, sftp)
            else:
                connection.abort()
            raise
        self._keep(connection, sftp)

    async def _connection(self) -> "tuple[SSHClientConnection, SFTPClient]":
        """Return a connection: one that has died meanwhile is noticed before anything is written."""
        import asyncssh

        while self._idle:
            connection, sftp = self._idle.pop()
            try:
                await sftp.realpath(".")
            except (asyncssh.Error, OSError):
                connection.abort()
            except BaseException:
                connection.abort()
                raise
            else:
                return connection, sftp
        connection = await asyncssh.connect(self._settings.host, **self._options)
        try:
            return connection, await connection.start_sftp_client()
        except BaseException:
            connection.abort()
            raise

    def _keep(self, connection: "SSHClientConnection", sftp: "SFTPClient") -> None:
        if len(self._idle) < _MOST_IDLE and not connection.is_closed():
            self._idle.append((connection, sftp))
        else:
            connection.abort()

    def _path(self, name: str) -> str:
        return f"{self._settings.folder.rstrip('/')}/{name}"

    def _lost(self, upload: _Upload, problem: str) -> ShipmentOutcome:
        """Return what came of it if there is no answer, perhaps to what follows an answer."""
        reason = f"{self._settings.address}: {problem}"
        return upload.outcome or (OutcomeUnknown(reason) if upload.may_be_there else DestinationAway(reason))
