# SPDX-License-Identifier: MIT
"""The outbox on PostgreSQL with SQLAlchemy: your objects and the message about them in your own session.

A plain Session with redrive.connect_blocking is the same, without await.
DATABASE_URL says where the database is, such as postgresql://shop@db.example/shop.
"""

import asyncio
import os

from sqlalchemy import func, make_url, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from redrive import connect
from redrive.broker import Broker, Complete, Message, Send


class Base(DeclarativeBase):
    """The shop's own tables."""


class Order(Base):
    """What a customer has ordered."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]


class MailSent(Base):
    """A mail that is done."""

    __tablename__ = "mails_sent"
    id: Mapped[str] = mapped_column(primary_key=True)


async def place_order(sessions: async_sessionmaker[AsyncSession], broker: Broker, order: int, item: str) -> None:
    """Store an order and announce it, in one transaction."""
    mail = Message(f"thank you for order {order}".encode(), id=f"thanks-{order}")
    async with sessions.begin() as session:
        session.add(Order(id=order, item=item))
        await broker.apply(Send("mails", mail), within=session)


async def send_mails(sessions: async_sessionmaker[AsyncSession], broker: Broker) -> None:
    """Send the mails; each is noted in one transaction with the completion of its message."""
    async for mail in broker.messages("mails"):
        print(mail.body.decode())
        async with sessions.begin() as session:
            session.add(MailSent(id=mail.id))
            await broker.apply(Complete(mail.lock), within=session)


async def main() -> None:
    """Place orders, one of them twice, and send the mails."""
    url = os.environ["DATABASE_URL"]
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
    sessions = async_sessionmaker(engine)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with connect(url) as broker:
        await broker.declare("mails")
        await place_order(sessions, broker, 42, "lamp")
        await place_order(sessions, broker, 43, "table")
        try:
            await place_order(sessions, broker, 42, "lamp")
        except IntegrityError as error:
            print("refused, and no mail was sent:", error.orig)
        await send_mails(sessions, broker)
        async with sessions() as session:
            assert await session.scalar(select(func.count()).select_from(MailSent)) == 2
        left = await broker.inspect("mails")
        assert (left.ready, left.locked, left.dead) == (0, 0, 0)
    await engine.dispose()


asyncio.run(main())
