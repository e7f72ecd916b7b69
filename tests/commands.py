# SPDX-License-Identifier: MIT
"""``redrive`` in the process of the tests, for tests that are about what a command does and not about the process."""

import functools

import typer.testing
from typer.main import get_command

from redrive.cli.app import app

# Typer makes the whole tree of commands anew for each run, which takes four times as long as most commands do.
typer.testing._get_command = functools.cache(get_command)


def run_command(*arguments, stdin=None, env=None):
    """Run a command; the result has its exit code and what it printed."""
    texts = [str(argument) for argument in arguments]
    return typer.testing.CliRunner().invoke(app, texts, input=stdin, env=env, prog_name="redrive")
