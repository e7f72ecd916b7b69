# SPDX-License-Identifier: MIT
"""A real SFTP server in this process, which fails at the step that its test says."""

import asyncio
import functools
import os

import asyncssh

HOST_KEY = asyncssh.generate_private_key("ssh-ed25519")
USER_KEY = asyncssh.generate_private_key("ssh-ed25519")
OTHER_KEY = asyncssh.generate_private_key("ssh-ed25519")
PASSWORD = "geheim"  # noqa: S105 - of a server that only this test knows

FAULTS = ("refuse", "forbid", "drop_before", "drop_after", "hang_before", "hang_after")


class FaultyServer:
    """A server whose files are in a folder.

    Attributes:
        step: the command of the protocol that fails, once; None: none does.
        fault: how.
        has_failed: set when it has.
        commands: every command that it got.
    """

    def __init__(self, folder):
        self.folder = folder
        self.step = None
        self.fault = None
        self.has_failed = asyncio.Event()
        self.commands = []
        self.connections = []
        self.opened = []
        self._listener = None

    async def start(self):
        self._listener = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=functools.partial(_Login, self),
            server_host_keys=[HOST_KEY],
            sftp_factory=functools.partial(_FaultyFiles, self),
        )
        self.port = self._listener.get_port()

    async def stop(self):
        self._listener.close()
        self.drop()
        await self._listener.wait_closed()
        for each in self.opened:
            each.close()

    def drop(self):
        """End all connections, as when a cable is pulled."""
        for each in self.connections:
            each.abort()
        self.connections.clear()

    def fail(self, step, fault):
        self.step, self.fault = step, fault
        self.has_failed.clear()

    def fault_of(self, command):
        """Return how a command fails, if it does."""
        self.commands.append(command)
        if self.step != command:
            return None
        self.step = None
        self.has_failed.set()
        return self.fault

    @property
    def files(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


class _Login(asyncssh.SSHServer):
    def __init__(self, server):
        self._server = server

    def connection_made(self, conn):
        self._server.connections.append(conn)
        if self._server.step == "connect":
            self._server.step = None
            self._server.has_failed.set()
            conn.abort()

    def password_auth_supported(self):
        return True

    def validate_password(self, username, password):
        return (username, password) == ("lab", PASSWORD)

    def public_key_auth_supported(self):
        return True

    def validate_public_key(self, username, key):
        return username == "lab" and key == USER_KEY.convert_to_public()


REFUSALS = {
    "refuse": asyncssh.SFTPFailure("no space is left"),
    "forbid": asyncssh.SFTPPermissionDenied("you must not"),
    "unsupported": asyncssh.SFTPOpUnsupported("what is that?"),
}


def _step(name):
    """Return a command that may fail before or after it is done. A server that hangs answers nothing any more."""

    async def command(self, *args):
        fault = self.server.fault_of(name)
        if fault in REFUSALS:
            raise REFUSALS[fault]
        await self.fail(fault, "before")
        if fault == "half":
            args = (*args[:-1], args[-1][: len(args[-1]) // 2])
        try:
            result = getattr(asyncssh.SFTPServer, name)(self, *args)
        except OSError:
            await self.fail(fault, "after")
            raise
        if name == "open":
            self.server.opened.append(result)
        await self.fail(fault, "after")
        return result

    return command


class _FaultyFiles(asyncssh.SFTPServer):
    def __init__(self, server, chan):
        super().__init__(chan, chroot=os.fsencode(server.folder))
        self.server = server
        self._is_hung = False

    async def fail(self, fault, when):
        self._is_hung = self._is_hung or fault == f"hang_{when}"
        if self._is_hung:
            await asyncio.Event().wait()
        if fault == f"drop_{when}" or (fault, when) == ("half", "after"):
            self.connection.abort()
            raise asyncssh.SFTPConnectionLost("gone")

    realpath, stat, open, write = (_step(name) for name in ("realpath", "stat", "open", "write"))
    read, fsync, fstat, close = (_step(name) for name in ("read", "fsync", "fstat", "close"))
    rename, posix_rename, remove = (_step(name) for name in ("rename", "posix_rename", "remove"))
