# SPDX-License-Identifier: MIT
"""The server: everything an operator or a program needs to know and do, over HTTP."""

from redrive.server.app import create_app
from redrive.server.desk import Desk, open_desk
from redrive.server.process import ServerProcess
from redrive.server.settings import ServerSettings, read_server_settings

__all__ = ["Desk", "ServerProcess", "ServerSettings", "create_app", "open_desk", "read_server_settings"]
