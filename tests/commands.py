# SPDX-License-Identifier: MIT
"""``redrive`` in the process of the tests, for tests that are about what a command does and not about the process."""

import functools

import typer.testing

from redrive.cli.main import app, command_line


@functools.cache
def _made_once(_app):
    """Return the whole command line. To make it anew for each run, as Typer does, takes longer than most commands."""
    return command_line()


typer.testing._get_command = _made_once


def run_command(*arguments, stdin=None, env=None):
    """Run a command; the result has its exit code and what it printed."""
    texts = [str(argument) for argument in arguments]
    return typer.testing.CliRunner().invoke(app, texts, input=stdin, env=env, prog_name="redrive")
