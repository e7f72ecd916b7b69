# SPDX-License-Identifier: MIT
"""The settings of the server, and reading them from ``redrive.toml``; every error names a line and what to write there.

::

    [server]
    listen = "127.0.0.1:8484"
    database = "postgresql://redrive@db/redrive"
    hosts = ["redrive.example.com"]
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, NoReturn

from redrive import duration, number, toml_lines
from redrive.access import RedactionRules, rights_of
from redrive.access.oidc import OidcSettings, oidc_of
from redrive.access.redaction_file import rules_of
from redrive.broker.rules import ERROR_QUEUE
from redrive.connection_url import is_in_memory
from redrive.errors import InvalidSetting, ServerFileError, UnknownSetting
from redrive.http import listener
from redrive.http.public_address import networks_of
from redrive.notifications import EVENTS
from redrive.notifications.webhook import check_webhook
from redrive.parts import check_variable_names

TABLE: Final = "server"
"""The table of the file that has them; other programs' tables beside it are left alone."""


PARTS: Final = ("ingest", "operations", "routes", "pipelines", "upkeep", "notifications")
"""What a server does beside answering; each can be switched off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How the server runs.

    Attributes:
        listen: host and port; port 0 is any that is free.
        database: where queues, failures, routes and pipelines are, as for ``redrive.connect``.
        hosts: the names by which clients may call it, beside the address it listens at: what the ``Host`` of a request
            may say. It keeps web pages of strangers from reaching it through the browser of a person who may.
        max_body_bytes: how large a request may be.
        allow: the functions that routes, pipelines and recoveries may call, as ``package.module:function``; what
            comes over HTTP or is found in the database can name no other.
        folders: the folders whose files stored routes may read and write, and those that are written over HTTP. Without
            any, such a route does not run here.
        variables: the environment variables that stored routes may read (``env:NAME``), and those that are written over
            HTTP; ``*`` in a name stands for any characters. Routes and pipelines of its own files may read all.
        question_limit: how many seconds a slow question may take: text search, counts by time, exports page by page.
        require_sign_in: whether every request must say who it is from; a server that other machines can reach must.
            Otherwise every request from this machine is from an admin, with the name of the user who runs it.
        public_url: where browsers reach it: ``https://redrive.example.com``. With https, cookies need it.
        trusted_proxies: addresses and networks of proxies that sign people in, and that say where requests come from.
        proxy_user_header: the header in which they say who it is; empty: they do not.
        proxy_role: the role of those whom a proxy has signed in.
        oidc: the provider of OpenID Connect that signs people in: ``[server.oidc]``; None: there is none.
        hide: what is hidden in messages before they are shown: ``headers``, ``pointers`` and ``patterns``.
        sources: the error queues and dead-letter queues to read failures from, beside those they came from before.
        route_files: files of routes that are added when it starts.
        pipeline_files: files of the pipelines that it runs.
        receivers: where the HTTP receivers of routes and pipelines listen: host and port.
        ingest: whether it reads failures into the store.
        operations: whether it works on operations.
        routes: whether it runs the stored routes.
        pipelines: whether it runs the pipelines.
        upkeep: whether it looks for expired messages and idle queues.
        notifications: whether it calls webhooks.
        work_process: whether all of this is done in a process of its own, so that however many people look, it is not
            slowed down; never with a database in memory, which no other process can use.
        webhooks: webhooks that are added, or changed, when it starts: by name, a table with ``url``, ``secret``
            (``env:NAME``) and ``events``.
        private_networks: networks that are not of the internet, and in which webhooks may be: ``10.0.0.0/8``.
    """

    listen: str = "127.0.0.1:8484"
    database: str = "sqlite:///redrive.db"
    hosts: tuple[str, ...] = ()
    max_body_bytes: int = 4_194_304
    allow: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    question_limit: float = 5.0
    require_sign_in: bool = False
    public_url: str = ""
    trusted_proxies: tuple[str, ...] = ()
    proxy_user_header: str = ""
    proxy_role: str = "viewer"
    oidc: OidcSettings | None = None
    hide: RedactionRules = field(default_factory=RedactionRules)
    sources: tuple[str, ...] = (ERROR_QUEUE,)
    route_files: tuple[str, ...] = ()
    pipeline_files: tuple[str, ...] = ()
    receivers: str = "127.0.0.1:8080"
    ingest: bool = True
    operations: bool = True
    routes: bool = True
    pipelines: bool = True
    upkeep: bool = True
    notifications: bool = True
    work_process: bool = True
    webhooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    private_networks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("listen", "database", "receivers"):
            if not isinstance(value := getattr(self, name), str) or not value:
                raise InvalidSetting(name, value, "must be a text")
        number.whole("max_body_bytes", self.max_body_bytes, 1_024)
        object.__setattr__(self, "question_limit", duration.seconds("question_limit", self.question_limit))
        for name in (
            "hosts",
            "allow",
            "folders",
            "variables",
            "sources",
            "route_files",
            "pipeline_files",
            "trusted_proxies",
            "private_networks",
        ):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        check_variable_names("variables", self.variables)
        self._check_sign_in()
        networks_of(self.private_networks)
        _check_webhooks(self.webhooks)
        for name in ("require_sign_in", "work_process", *PARTS):
            number.flag(name, getattr(self, name))
        for name in ("listen", "receivers"):
            listener.host_and_port(getattr(self, name), name)

    @property
    def has_work_process(self) -> bool:
        """Whether there is work to do, and it is done in a process of its own."""
        works = any(getattr(self, name) for name in PARTS)
        return works and self.work_process and not is_in_memory("database", self.database)

    def _check_sign_in(self) -> None:
        for name in ("public_url", "proxy_user_header"):
            if not isinstance(value := getattr(self, name), str):
                raise InvalidSetting(name, value, "must be a text")
        rights_of(self.proxy_role)
        _check_proxies(self.trusted_proxies)
        if self.oidc is not None and not isinstance(self.oidc, OidcSettings):
            raise InvalidSetting("oidc", self.oidc, "must be a table: write [server.oidc]")
        if self.oidc is not None and not self.public_url:
            raise InvalidSetting("public_url", self.public_url, "must be set for oidc: browsers come back there")
        if not isinstance(self.hide, RedactionRules):
            raise InvalidSetting("hide", self.hide, "must be a table: write [server.hide]")


def _check_proxies(proxies: Sequence[str]) -> None:
    for each in proxies:
        try:
            ipaddress.ip_network(each)
        except ValueError:
            raise InvalidSetting("trusted_proxies", each, "must be an address or a network: 10.0.0.0/8") from None


def _check_webhooks(webhooks: object) -> None:
    if not isinstance(webhooks, Mapping):
        raise InvalidSetting("webhooks", webhooks, "must be tables: write [server.webhooks.NAME]")
    for name, table in webhooks.items():
        if not isinstance(table, Mapping) or not {"url", "secret"} <= set(table) <= {"url", "secret", "events"}:
            raise InvalidSetting(f"webhooks.{name}", name, "must have url and secret, and may have events")
        check_webhook(name, table["url"], table.get("events", EVENTS))
        if not isinstance(table["secret"], str) or not table["secret"].startswith("env:"):
            problem = "must be env: and the name of an environment variable that has it"
            raise InvalidSetting(f"webhooks.{name}.secret", "***", problem)


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise InvalidSetting(name, value, 'must be a list of texts: ["…"]')


def read_server_settings(path: Path) -> ServerSettings:
    """Return the settings in a file.

    Raises:
        ServerFileError: it cannot be read, or a setting in it cannot be used.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ServerFileError(path, 1, f"it cannot be read: {error}") from None
    return parse_server_settings(text, path)


def parse_server_settings(text: str, source: Path | None = None) -> ServerSettings:
    """Return the settings that a text in TOML describes."""
    try:
        tables, lines = toml_lines.parse(text)
    except toml_lines.NotToml as error:
        raise ServerFileError(source, error.line, f"this is not TOML: {error.problem}") from None

    def fail(setting: str, problem: str) -> NoReturn:
        line, _ = toml_lines.nearest(lines, (TABLE, *setting.split(".")))
        raise ServerFileError(source, line, problem) from None

    table = tables.get(TABLE, {})
    if not isinstance(table, dict):
        fail("", f"must be a table: write [{TABLE}]")
    try:
        return settings_of(table)
    except (InvalidSetting, UnknownSetting) as error:
        fail(error.setting, str(error))


def settings_of(table: Mapping[str, Any]) -> ServerSettings:
    """Return the settings of a table.

    Raises:
        UnknownSetting: there is no setting of a name.
        InvalidSetting: a setting has a value that is not allowed.
    """
    known = tuple(each.name for each in fields(ServerSettings))
    for name in table:
        if name not in known:
            raise UnknownSetting("the server", name, known)
    given = dict(table)
    if isinstance(hide := given.get("hide"), dict):
        given["hide"] = rules_of(hide)
    if isinstance(oidc := given.get("oidc"), dict):
        given["oidc"] = oidc_of(oidc)
    return ServerSettings(**given)
