# SPDX-License-Identifier: MIT
"""What ``redrive demo`` shows: three of the layers at work, in the terminal."""

from rich.console import Console
from rich.panel import Panel

from redrive.cli.demo.recovery import show_recovery
from redrive.cli.demo.redelivery import show_redelivery
from redrive.cli.demo.retry import show_retries


def run_demo(console: Console, *, fast: bool) -> None:
    """Show a call that is retried, a message that is redelivered, and a thousand failures that are recovered."""
    console.print(Panel("Redrive: five layers of retry. Three of them at work:", expand=False, border_style="cyan"))
    show_retries(console, fast=fast)
    show_redelivery(console)
    show_recovery(console)
    console.print("\nNext: [bold]docs/tutorial/[/], or [bold]redrive --help[/].")
