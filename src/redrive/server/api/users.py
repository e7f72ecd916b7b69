# SPDX-License-Identifier: MIT
"""``/users``: the people who sign in with a password. No answer has anything of a password."""

from pydantic import Field

from redrive.access import UserInfo
from redrive.broker.views import View
from redrive.server.api.endpoint import Caller, Endpoints, Name
from redrive.server.api.models import Instant, ViewModel
from redrive.server.api.requests import Key, once
from redrive.server.api.tokens import EvenLast, RightsAsked, granted

api = Endpoints("users")


class UserAsked(RightsAsked):
    """A person to be added."""

    name: str = Field(max_length=1_000, examples=["ann"])
    password: str = Field(max_length=2_000)


class PasswordAsked(ViewModel):
    """A new password."""

    password: str = Field(max_length=2_000)


class UserModel(ViewModel):
    """A person who signs in with a password."""

    name: str = Field(examples=["ann"])
    role: str
    queues: list[str] | None
    may_see_bodies: bool
    created_by: str
    created_at: Instant


class PasswordChanged(ViewModel):
    """A person who has another password."""

    name: str
    changed: bool


class UserRemoved(ViewModel):
    """A person who was removed."""

    name: str
    removed: bool


@api.get("/users", "users.read", list[UserModel])
async def list_users(caller: Caller) -> list[View]:
    """List the people who sign in with a password, in order of their names."""
    return [each.view() for each in await caller.look(caller.desk.access.users)]


@api.post("/users", "users.write", UserModel)
async def add_user(caller: Caller, asked: UserAsked, key: Key = None) -> View:
    """Add a person who signs in with a password."""

    async def add() -> UserInfo:
        rights = granted(caller, asked)
        return await caller.desk.access.add_user(asked.name, asked.password, rights, actor=caller.actor)

    return (await caller.change(f"user:{asked.name}", once(caller, key, add))).view()


@api.put("/users/{name}/password", "users.write", PasswordChanged)
async def change_password(caller: Caller, name: Name, asked: PasswordAsked) -> View:
    """Give a person another password; their sessions end."""
    change = caller.desk.access.set_password
    await caller.change(f"user:{name}", lambda: change(name, asked.password), reason="another password")
    return {"name": name, "changed": True}


@api.put("/users/{name}/rights", "users.write", UserModel)
async def change_rights(caller: Caller, name: Name, asked: RightsAsked, even_last: EvenLast = False) -> View:  # noqa: FBT002 - FastAPI passes it by name
    """Change what a person may do; it counts for their sessions at once. One admin is kept, unless it is meant."""

    async def change() -> UserInfo:
        rights = granted(caller, asked)
        return await caller.desk.access.set_rights(name, rights, even_last=even_last)

    return (await caller.change(f"user:{name}", change, reason=f"is {asked.role} now")).view()


@api.delete("/users/{name}", "users.write", UserRemoved)
async def remove_user(caller: Caller, name: Name, even_last: EvenLast = False) -> View:  # noqa: FBT002 - FastAPI passes it by name
    """Remove a person; their sessions end. The last admin is kept, unless it is said that it is meant."""
    remove = caller.desk.access.remove_user
    await caller.change(f"user:{name}", lambda: remove(name, even_last=even_last), reason="removed")
    return {"name": name, "removed": True}
