# SPDX-License-Identifier: MIT
"""The SFTP transport: each shipment is a file, which is uploaded under another name and then renamed.

Until it is renamed, the destination does not have it. The answer to the renaming may be lost: then nobody knows, and a
look at the name tells. A file that has the name is never replaced.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, TypeVar

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
from redrive.pipeline.transports.placed import PlacedTransport, absent, displaced, taken
from redrive.printable import one_line

if TYPE_CHECKING:
    from asyncssh import SFTPClient, SFTPClientFile, SSHClientConnection

T = TypeVar("T")

_Look: TypeAlias = Literal["absent", "same", "other", "hidden"]

_EXCERPT: Final = 200
_MOST_COMPARED: Final = 1_048_576
"""A larger file is the same if it has the same name and size."""


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
        """See that the server can be told from others, and that there is a way to log in."""
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


class _Incomplete(Exception):
    """The server has not stored all that was sent."""


class _OpenSftpTransport:
    """A server that files are uploaded to. The connection is kept between shipments."""

    def __init__(self, settings: SftpTransport, environment: TransportEnvironment) -> None:
        self._settings = settings
        self._clock = environment.clock
        self._options = _options(settings)
        self._connecting = asyncio.Lock()
        self._connection: SSHClientConnection | None = None
        self._sftp: SFTPClient | None = None

    async def send(self, shipment: Shipment) -> ShipmentOutcome:
        import asyncssh

        upload = _Upload()
        try:
            name = name_of("name", self._settings.name, shipment)
            async with self._clock.timeout(self._settings.timeout):
                return await self._put(name, shipment, upload)
        except InvalidSetting as error:
            return ShipmentRefused(str(error))
        except TimeoutError:
            self._disconnect()  # whatever the server still does with what it has got
            return self._lost(upload, f"no answer after {self._settings.timeout:g} s")
        except Exception as error:  # noqa: BLE001 - whatever went wrong, what counts is how far it has come
            problem = one_line(error, _EXCERPT) or type(error).__name__
            has_answered = isinstance(error, asyncssh.SFTPError | _Incomplete) and not _is_loss(error)
            if has_answered and not upload.may_be_there:
                return ShipmentDelayed(f"{self._settings.address}: {problem}")
            return self._lost(upload, problem)

    async def probe(self, shipment: Shipment) -> ProbeOutcome:
        try:
            name = name_of("name", self._settings.name, shipment)
            async with self._clock.timeout(self._settings.timeout):
                found = await self._look(await self._connected(), self._path(name), shipment.body)
        except Exception as error:  # noqa: BLE001 - nothing is known then
            if isinstance(error, TimeoutError):
                self._disconnect()
            return OutcomeUnknown(f"{self._settings.address}: {one_line(error, _EXCERPT) or type(error).__name__}")
        outcomes: dict[_Look, ProbeOutcome] = {
            "same": ShipmentSent(self._path(name)),
            "absent": absent(self._path(name)),
            "other": displaced(self._path(name)),
            "hidden": OutcomeUnknown(f"{self._settings.address}: the server does not let this user look"),
        }
        return outcomes[found]

    async def close(self) -> None:
        closing, self._connection, self._sftp = self._connection, None, None
        if closing is not None:
            closing.close()
            await closing.wait_closed()

    # --- one shipment

    async def _put(self, name: str, shipment: Shipment, upload: _Upload) -> ShipmentOutcome:

        sftp = await self._connected()
        target, part = self._path(name), self._path(temporary_name(name, shipment.attempt))
        found = await self._look(sftp, target, shipment.body)
        if found in ("absent", "hidden"):
            await self._write(sftp, part, shipment.body)
            upload.may_be_there = True
            found = await self._renamed(sftp, part, target, shipment.body)
            upload.may_be_there = found in ("same", "other")
        await self._sweep(sftp, name, shipment.attempt)
        if found in ("absent", "hidden"):
            return ShipmentDelayed(f"{self._settings.address}: the file cannot be renamed to {target}")
        return taken(target) if found == "other" else ShipmentSent(target)

    async def _renamed(self, sftp: "SFTPClient", part: str, target: str, body: bytes) -> _Look:
        """Give a file its name; return what has this name then."""
        import asyncssh

        try:
            await _rename(sftp, part, target)
        except asyncssh.SFTPError as error:
            if _is_loss(error):
                raise
            return await self._look(sftp, target, body)  # it may be there, by another process
        return "same"

    async def _look(self, sftp: "SFTPClient", path: str, body: bytes) -> _Look:
        """Return whether a file is there, and whether it has these bytes."""
        import asyncssh

        try:
            size = (await sftp.stat(path)).size
            if size is not None and size != len(body):
                return "other"
            if len(body) > _MOST_COMPARED:
                return "same"
            file = await sftp.open(path, "rb")
            content: object = await _then_close(file, file.read())  # bytes, whatever the stubs say
            return "same" if content == body else "other"  # noqa: TRY300 - what it says is of no interest to an else
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return "absent"
        except asyncssh.SFTPPermissionDenied:  # of a box that one can only put something into
            return "hidden"

    async def _write(self, sftp: "SFTPClient", part: str, body: bytes) -> None:
        """Write a file. What an earlier process has left of it is written over, and never shortened."""
        from asyncssh.constants import FXF_CREAT, FXF_WRITE

        file = await sftp.open(part, FXF_WRITE | FXF_CREAT, encoding=None)
        size = await _then_close(file, _written(file, body))
        if size is not None and size != len(body):
            await self._remove(sftp, part)
            raise _Incomplete(f"of {len(body):,} bytes, {size:,} are in the file")

    async def _sweep(self, sftp: "SFTPClient", name: str, attempt: int) -> None:
        """Remove what attempts have left, whose process or connection died."""
        for each in temporary_names(name, attempt):
            await self._remove(sftp, self._path(each))

    async def _remove(self, sftp: "SFTPClient", path: str) -> None:
        import asyncssh

        with suppress(asyncssh.Error, OSError):
            await sftp.remove(path)

    # --- the connection

    async def _connected(self) -> "SFTPClient":
        """Return a connection that works: one that has died meanwhile is noticed before anything is written."""
        import asyncssh

        async with self._connecting:
            if self._sftp is not None:
                with suppress(asyncssh.Error, OSError):
                    await self._sftp.realpath(".")
                    return self._sftp
                self._disconnect()
            self._connection = await asyncssh.connect(self._settings.host, **self._options)
            self._sftp = await self._connection.start_sftp_client()
            return self._sftp

    def _disconnect(self) -> None:
        ending, self._connection, self._sftp = self._connection, None, None
        if ending is not None:
            ending.abort()

    def _path(self, name: str) -> str:
        return f"{self._settings.folder.rstrip('/') or ''}/{name}"

    def _lost(self, upload: _Upload, problem: str) -> ShipmentOutcome:
        reason = f"{self._settings.address}: {problem}"
        return OutcomeUnknown(reason) if upload.may_be_there else DestinationAway(reason)


async def _written(file: "SFTPClientFile", body: bytes) -> int | None:
    """Write to a file, as far as possible to the disk; return how large the file is then."""
    import asyncssh

    await file.write(body)
    with suppress(asyncssh.SFTPOpUnsupported):
        await file.fsync()
    return (await file.stat()).size


async def _then_close(file: "SFTPClientFile", working: Awaitable[T]) -> T:
    """Return what comes of work on a file, which is closed if the server answers: nobody waits for one that does not."""
    import asyncssh

    try:
        result = await working
    except asyncssh.SFTPError:
        with suppress(asyncssh.Error, OSError):
            await file.close()
        raise
    await file.close()
    return result


def _is_loss(error: Exception) -> bool:
    """Say whether an error is that there was no answer."""
    import asyncssh

    return isinstance(error, asyncssh.SFTPConnectionLost | asyncssh.SFTPNoConnection)


async def _rename(sftp: "SFTPClient", part: str, target: str) -> None:
    """Give a file its name. A server without this command has the one of POSIX, which may replace a file."""
    import asyncssh

    try:
        await sftp.rename(part, target)
    except asyncssh.SFTPOpUnsupported:
        await sftp.posix_rename(part, target)
