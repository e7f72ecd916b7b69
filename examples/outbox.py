# SPDX-License-Identifier: MIT
"""The outbox: an order and the message about it are stored together, or not at all; and a mail is booked once."""

import asyncio
import sqlite3
from functools import partial

from redrive import connect
from redrive.broker import Broker, Complete, Message, Send

TABLES = (
    "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS mails_sent (id TEXT PRIMARY KEY)",
)


def make_tables(database: sqlite3.Connection) -> None:
    """Make the shop's own tables, beside the queues."""
    for table in TABLES:
        database.execute(table)


def insert_order(order: int, item: str, database: sqlite3.Connection) -> None:
    """Store an order; part of the caller's transaction."""
    database.execute("INSERT INTO orders VALUES (?, ?)", (order, item))


def note_mail(mail: str, database: sqlite3.Connection) -> None:
    """Note that a mail is done; part of the caller's transaction."""
    database.execute("INSERT INTO mails_sent VALUES (?)", (mail,))


async def place_order(broker: Broker, order: int, item: str) -> None:
    """Store an order and announce it, in one transaction."""
    mail = Message(f"thank you for order {order}".encode(), id=f"thanks-{order}")
    await broker.apply(Send("mails", mail), inside=partial(insert_order, order, item))


async def send_mails(broker: Broker) -> None:
    """Send the mails; each is noted in one transaction with the completion of its message."""
    async for mail in broker.messages("mails"):
        print(mail.body.decode())
        await broker.apply(Complete(mail.lock), inside=partial(note_mail, mail.id))


async def main() -> None:
    """Place orders, one of them twice, and send the mails."""
    async with connect("sqlite:///outbox.db") as broker:
        await broker.declare("mails")
        await broker.apply(inside=make_tables)
        await place_order(broker, 42, "lamp")
        await place_order(broker, 43, "table")
        try:
            await place_order(broker, 42, "lamp")
        except sqlite3.IntegrityError as error:
            print("refused, and no mail was sent:", error)
        await send_mails(broker)
        left = await broker.inspect("mails")
        assert (left.ready, left.locked, left.dead) == (0, 0, 0)


asyncio.run(main())
