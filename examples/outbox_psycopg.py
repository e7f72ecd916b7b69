# SPDX-License-Identifier: MIT
"""The outbox on PostgreSQL with psycopg, without asyncio: your row and the message about it in your own transaction.

With psycopg.AsyncConnection and redrive.connect it is the same, with await.
DATABASE_URL says where the database is, such as postgresql://shop@db.example/shop.
"""

import os

import psycopg

from redrive import connect_blocking
from redrive.broker import BlockingBroker, Complete, Message, Send

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY, item text NOT NULL);
CREATE TABLE IF NOT EXISTS mails_sent (id text PRIMARY KEY);
"""


def place_order(connection: psycopg.Connection, broker: BlockingBroker, order: int, item: str) -> None:
    """Store an order and announce it, in one transaction."""
    mail = Message(f"thank you for order {order}".encode(), id=f"thanks-{order}")
    with connection.transaction():
        connection.execute("INSERT INTO orders VALUES (%s, %s)", (order, item))
        broker.apply(Send("mails", mail), within=connection)


def send_mails(connection: psycopg.Connection, broker: BlockingBroker) -> None:
    """Send the mails; each is noted in one transaction with the completion of its message."""
    for mail in broker.messages("mails"):
        print(mail.body.decode())
        with connection.transaction():
            connection.execute("INSERT INTO mails_sent VALUES (%s)", (mail.id,))
            broker.apply(Complete(mail.lock), within=connection)


def main() -> None:
    """Place orders, one of them twice, and send the mails."""
    url = os.environ["DATABASE_URL"]
    with connect_blocking(url) as broker, psycopg.connect(url, autocommit=True) as connection:
        broker.declare("mails")
        connection.execute(TABLES)
        place_order(connection, broker, 42, "lamp")
        place_order(connection, broker, 43, "table")
        try:
            place_order(connection, broker, 42, "lamp")
        except psycopg.errors.UniqueViolation as error:
            print("refused, and no mail was sent:", error)
        send_mails(connection, broker)
        assert connection.execute("SELECT count(*) FROM mails_sent").fetchone() == (2,)
        left = broker.inspect("mails")
        assert (left.ready, left.locked, left.dead) == (0, 0, 0)


main()
