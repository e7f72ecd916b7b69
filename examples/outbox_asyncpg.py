# SPDX-License-Identifier: MIT
"""The outbox on PostgreSQL with asyncpg: your row and the message about it in your own transaction.

DATABASE_URL says where the database is, such as postgresql://shop@db.example/shop.
"""

import asyncio
import os

import asyncpg

from redrive import connect
from redrive.broker import Broker, Complete, Message, Send

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY, item text NOT NULL);
CREATE TABLE IF NOT EXISTS mails_sent (id text PRIMARY KEY);
"""


async def place_order(pool: asyncpg.Pool, broker: Broker, order: int, item: str) -> None:
    """Store an order and announce it, in one transaction."""
    mail = Message(f"thank you for order {order}".encode(), id=f"thanks-{order}")
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("INSERT INTO orders VALUES ($1, $2)", order, item)
        await broker.apply(Send("mails", mail), within=connection)


async def send_mails(pool: asyncpg.Pool, broker: Broker) -> None:
    """Send the mails; each is noted in one transaction with the completion of its message."""
    async for mail in broker.messages("mails"):
        print(mail.body.decode())
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("INSERT INTO mails_sent VALUES ($1)", mail.id)
            await broker.apply(Complete(mail.lock), within=connection)


async def main() -> None:
    """Place orders, one of them twice, and send the mails."""
    url = os.environ["DATABASE_URL"]
    async with connect(url) as broker, asyncpg.create_pool(url, min_size=1) as pool:
        await broker.declare("mails")
        await pool.execute(TABLES)
        await place_order(pool, broker, 42, "lamp")
        await place_order(pool, broker, 43, "table")
        try:
            await place_order(pool, broker, 42, "lamp")
        except asyncpg.UniqueViolationError as error:
            print("refused, and no mail was sent:", error)
        await send_mails(pool, broker)
        assert await pool.fetchval("SELECT count(*) FROM mails_sent") == 2
        left = await broker.inspect("mails")
        assert (left.ready, left.locked, left.dead) == (0, 0, 0)


asyncio.run(main())
