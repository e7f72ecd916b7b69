# SPDX-License-Identifier: MIT
"""A real mail server in this process, which fails at the step that its test says."""

import asyncio

from aiosmtpd.smtp import SMTP, AuthResult

STEPS = ("EHLO", "MAIL", "RCPT", "DATA", "message", "QUIT")


class MailServer:
    """A server that keeps messages.

    Attributes:
        step: the command at which the fault happens, once.
        fault: ``drop_before``, ``drop_after``, ``hang_before``, ``hang_after``, or an answer such as ``450 later``.
        messages: pairs of recipients and bytes.
        has_failed: set when the fault has happened.
    """

    def __init__(self, **options):
        self.step = None
        self.fault = None
        self.messages = []
        self.has_failed = asyncio.Event()
        self._options = options
        self._server = None
        self._connections = []

    async def start(self):
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self):
        self._server.close()
        for each in self._connections:
            each.end()

    def _new(self):
        self._connections.append(_FaultySmtp(self, **self._options))
        return self._connections[-1]

    def fail(self, step, fault):
        self.step, self.fault = step, fault
        self.has_failed.clear()

    async def handle_DATA(self, _server, _session, envelope):  # noqa: N802 - aiosmtpd calls it so
        self.messages.append((tuple(envelope.rcpt_tos), envelope.original_content))
        return "250 kept"

    def log_in(self, _server, _session, _envelope, _mechanism, data):
        return AuthResult(success=(data.login, data.password) == (b"lab", b"geheim"), handled=False)


class _FaultySmtp(SMTP):
    def __init__(self, owner, **options):
        super().__init__(owner, hostname="mail.example", enable_SMTPUTF8=False, authenticator=owner.log_in, **options)
        self._owner = owner

    def end(self):
        if self.transport is not None:
            self.transport.abort()

    async def smtp_EHLO(self, hostname):  # noqa: N802 - aiosmtpd calls it so
        await self._at("EHLO", super().smtp_EHLO, hostname)

    async def smtp_MAIL(self, arg):  # noqa: N802 - same
        await self._at("MAIL", super().smtp_MAIL, arg)

    async def smtp_RCPT(self, arg):  # noqa: N802 - same
        await self._at("RCPT", super().smtp_RCPT, arg)

    async def smtp_DATA(self, arg):  # noqa: N802 - same
        await self._at("DATA", super().smtp_DATA, arg)

    async def smtp_QUIT(self, arg):  # noqa: N802 - same
        await self._at("QUIT", super().smtp_QUIT, arg)

    async def _call_handler_hook(self, command, *args):
        if command != "DATA":
            return await super()._call_handler_hook(command, *args)
        return await self._at("message", super()._call_handler_hook, command, *args)

    async def _at(self, step, function, *args):
        fault = None
        if self._owner.step == step:
            self._owner.step, fault = None, self._owner.fault
        await self._fail(fault, "before")
        if fault is not None and fault[0].isdigit():
            self._owner.has_failed.set()
            if step == "message":
                return fault
            await self.push(fault)
            return None
        result = await function(*args)
        await self._fail(fault, "after")
        return result

    async def _fail(self, fault, when):
        if fault == f"drop_{when}":
            self._owner.has_failed.set()
            self.transport.abort()
            await asyncio.Event().wait()  # it is cancelled, as the connection is lost
        if fault == f"hang_{when}":
            self._owner.has_failed.set()
            await asyncio.Event().wait()
