# SPDX-License-Identifier: MIT
"""The S3 transport: each shipment is an object, which is made only if there is none of its key.

So the server recognises a repetition: it answers that the key is taken, and the object that has it is compared.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from redrive.broker import DurationSetting, FlagSetting
from redrive.errors import InvalidSetting, MissingExtra
from redrive.http import request_rules
from redrive.parts import SecretSetting, TextSetting, from_environment, hidden_secret, secret_value, setting
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
from redrive.pipeline.shipment_names import NameTemplateSetting, name_of
from redrive.pipeline.transport import OpenTransport, TransportEnvironment
from redrive.pipeline.transports.placed import PlacedTransport, absent, displaced, taken
from redrive.printable import one_line

if TYPE_CHECKING:
    from obstore.store import S3Store

_Look: TypeAlias = Literal["absent", "same", "other"]

_DIGEST: Final = "sha256"
_DELIVERY: Final = "delivery-id"
_EXCERPT: Final = 200
_STATUS: Final = re.compile(r"status: (\d{3}),")
_CONNECTING: Final = re.compile(r"HttpError \{\s*kind: Connect,")
_LATER: Final = re.compile("RequestTimeout|ExpiredToken|SlowDown|OperationAborted")


@dataclass(frozen=True, slots=True)
class S3Transport(PlacedTransport):
    """Puts each shipment into a bucket of S3, or of a server that speaks its protocol.

    ``secret_access_key`` and ``session_token`` are ``env:`` and the name of an environment variable; without them the
    credentials are those that the machine or its role has. An object has the SHA-256 of its content as metadata.
    """

    kind: ClassVar[str] = "s3"

    bucket: str = setting(TextSetting("must be the name of a bucket"), "the bucket; it must be there")
    key: str = setting(
        NameTemplateSetting(has_folders=True),
        "what objects are called; the slot is in UTC",
        "{pipeline}/{destination}/{task}-{index}",
    )
    endpoint: str | None = setting(TextSetting("must be a URL"), "the server; None: that of AWS", None)
    region: str = setting(TextSetting("must be a region, such as 'eu-central-1'"), "the region", "us-east-1")
    access_key_id: str | None = setting(TextSetting(), "the id of the access key, or env:NAME", None)
    secret_access_key: str | None = setting(SecretSetting(), "the access key", None)
    session_token: str | None = setting(SecretSetting(), "the token of a session", None)
    has_bucket_in_host: bool = setting(
        FlagSetting(), "whether the bucket is part of the host's name, and not of the path", default=False
    )
    timeout: float = setting(DurationSetting(3_600.0), "how long the server may take for one shipment", 60.0)

    @property
    def address(self) -> str:
        """The server and the bucket."""
        return f"{self.endpoint or f's3.{self.region}'}/{self.bucket}"

    def check(self) -> None:
        """See that the server can be called, and that credentials are whole."""
        if self.endpoint is not None:
            request_rules.check_url("endpoint", self.endpoint)
        if (self.access_key_id is None) != (self.secret_access_key is None):
            shown = None if self.access_key_id is None else hidden_secret(self.access_key_id)
            raise InvalidSetting("access_key_id", shown, "must be given with secret_access_key, or neither of them")

    def open(self, environment: TransportEnvironment) -> OpenTransport:
        """Return the transport at work; nothing is connected before it is needed.

        Raises:
            InvalidSetting: an environment variable that it needs is not there.
            MissingExtra: obstore is not installed.
        """
        if find_spec("obstore") is None:  # better here than at the first shipment
            raise MissingExtra("the S3 transport", "s3")
        return _OpenS3Transport(self, environment)


def _store(settings: S3Transport) -> "S3Store":
    from obstore.store import S3Store

    config: dict[str, Any] = {
        "region": settings.region,
        "virtual_hosted_style_request": settings.has_bucket_in_host,
        "endpoint": settings.endpoint,
        "access_key_id": settings.access_key_id and from_environment("access_key_id", settings.access_key_id),
        "secret_access_key": secret_value("secret_access_key", settings.secret_access_key),
        "session_token": secret_value("session_token", settings.session_token),
    }
    options: dict[str, Any] = {
        "allow_http": (settings.endpoint or "").startswith("http://"),
        "timeout": timedelta(seconds=settings.timeout),
        "connect_timeout": timedelta(seconds=settings.timeout / 2),  # before the whole time is over: then it is away
        "pool_max_idle_per_host": "0",  # the server may close a connection at any time: then the outcome is unknown
    }
    return S3Store(
        settings.bucket,
        client_options=options,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - as its stubs call them
        retry_config={
            "max_retries": 0,
            "retry_timeout": timedelta(seconds=settings.timeout),
        },  # the pipeline tries again
        **{name: value for name, value in config.items() if value is not None},
    )


class _OpenS3Transport:
    """A bucket that objects are put into."""

    def __init__(self, settings: S3Transport, environment: TransportEnvironment) -> None:
        self._settings = settings
        self._clock = environment.clock
        self._store = _store(settings)

    async def send(self, shipment: Shipment) -> ShipmentOutcome:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        has_left = False
        try:
            key = name_of("key", self._settings.key, shipment)
            attributes = {
                "Content-Type": shipment.content_type or "application/octet-stream",
                _DIGEST: hashlib.sha256(shipment.body).hexdigest(),
                _DELIVERY: request_rules.sendable_key(shipment.delivery_id),
            }
            async with self._clock.timeout(self._settings.timeout):
                has_left = True
                try:
                    await obstore.put_async(
                        self._store, key, shipment.body, attributes=attributes, mode="create", use_multipart=False
                    )
                except AlreadyExistsError:
                    return await self._found(key, shipment)
            return ShipmentSent(key)
        except InvalidSetting as error:
            return ShipmentRefused(str(error))
        except TimeoutError:
            return OutcomeUnknown(f"{self._settings.address}: no answer after {self._settings.timeout:g} s")
        except Exception as error:  # noqa: BLE001 - its text says what kind of error it is
            return self._failed(error) if has_left else DestinationAway(self._reason(error))

    async def probe(self, shipment: Shipment) -> ProbeOutcome:
        try:
            key = name_of("key", self._settings.key, shipment)
            async with self._clock.timeout(self._settings.timeout):
                found = await self._look(key, shipment.body)
        except Exception as error:  # noqa: BLE001 - nothing is known then
            return OutcomeUnknown(self._reason(error))
        if found == "same":
            return ShipmentSent(key)
        return absent(key) if found == "absent" else displaced(key)

    async def close(self) -> None:
        return

    async def _found(self, key: str, shipment: Shipment) -> ShipmentOutcome:
        """Return what comes of a shipment whose key is taken."""
        try:
            found = await self._look(key, shipment.body)
        except Exception as error:  # noqa: BLE001 - it is there, but what it is cannot be read
            return OutcomeUnknown(self._reason(error))
        if found == "absent":  # another request for the same key is under way
            return OutcomeUnknown(f"{key} was there, and is not")
        return ShipmentSent(key) if found == "same" else taken(key)

    async def _look(self, key: str, body: bytes) -> _Look:
        """Return whether an object is there, and whether it has these bytes."""
        import obstore

        try:
            found = await obstore.get_async(self._store, key, options={"head": True})
        except FileNotFoundError:
            return "absent"
        if found.meta["size"] != len(body):
            return "other"
        digest = found.attributes.get(_DIGEST)
        if digest is None:  # something else has put it there
            whole = await obstore.get_async(self._store, key)
            return "same" if bytes(await whole.bytes_async()) == body else "other"
        return "same" if digest == hashlib.sha256(body).hexdigest() else "other"

    def _failed(self, error: Exception) -> ShipmentOutcome:
        """Return what an error of a request means: what the server answered, or how far the request has come."""
        text, reason = str(error).rpartition("Debug source:")[2], self._reason(error)
        answered = _STATUS.search(text)
        if answered is None:
            return DestinationAway(reason) if _CONNECTING.search(text) else OutcomeUnknown(reason)
        status = int(answered[1])
        if status in (401, 403, 404, 503):  # the credentials or the bucket, and no fault of this shipment
            return DestinationAway(reason)
        if status in (408, 425, 429) or _LATER.search(text):
            return ShipmentDelayed(reason)
        return OutcomeUnknown(reason) if status >= 500 and status != 501 else ShipmentRefused(reason)

    def _reason(self, error: Exception) -> str:
        said = str(error).partition("\n\nDebug source:")[0]
        return f"{self._settings.address}: {one_line(said, _EXCERPT) or type(error).__name__}"
