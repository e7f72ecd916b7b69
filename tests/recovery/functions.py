# SPDX-License-Identifier: MIT
"""Functions that change messages, or do something else. Nothing heavy is imported here: each process has to do it."""

import asyncio
import os
import sys
from dataclasses import replace


def leave(message):
    if message.body == b"order 2":
        sys.exit(1)
    return message


def hang(message):
    while message.body != b"order 6":
        pass
    return message


def die(_message):
    os._exit(1)


def grow(message):
    return replace(message, body=message.body * 100_000)


def cancelled(_message):
    raise asyncio.CancelledError


def die_of_three(message):
    if len(message.body) == 3:
        os._exit(3)
    return replace(message, body=message.body.upper())
