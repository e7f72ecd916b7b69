# SPDX-License-Identifier: MIT
"""What the demo says: three things to try in the browser, or the same as a story in the terminal.

The story asks the server over HTTP, as any other program would.
"""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from redrive.cli.demo.live_shop import LiveShop
from redrive.clock import pause, system_clock

if TYPE_CHECKING:
    import httpx

_OUTAGE: Final = "exception:shop.ProviderTimeout"
_CANARY: Final = 5
_LOOK_EVERY_S: Final = 0.2


def print_ways_on(console: Console, shop: LiveShop) -> None:
    """Print where to look, and what to try there."""
    url = f"http://{shop.address}"
    console.print(f"\n[bold]Open [cyan]{url}[/] in a browser.[/] Ctrl-C closes the shop.\n")
    console.print("Three things to try:")
    for number, (where, what) in enumerate(
        (
            (f"{url}/failed", "recover what failed this morning: the provider answers again"),
            (f"{url}/routes", "see a partner go down: its route waits, and the other two do not notice"),
            (f"{url}/find?id=A-100010", "follow one order through every layer"),
        ),
        start=1,
    ):
        console.print(f"  {number}. {what}")
        console.print(Text(f"     {where}", style="cyan"))


async def play_story(console: Console, shop: LiveShop) -> None:
    """Tell the story: what failed and why, a canary, five thousand messages that recover, and one message's way."""
    import httpx

    async with httpx.AsyncClient(base_url=f"http://{shop.address}/api/v1", timeout=30) as client:
        await _ready(shop)
        await _print_groups(console, client)
        shop.outside.is_steady = True  # a wave of failures in the middle would stop the operation, as it should
        await _recover(console, client)
        await _print_journey(console, client)
    console.print("\nThe same in the browser: [bold]redrive demo[/]. Next: [bold]docs/tutorial/[/].")


async def _ready(shop: LiveShop) -> None:
    """Wait until the server has opened its database; until then it answers 503."""
    import httpx

    async with httpx.AsyncClient(base_url=f"http://{shop.address}") as client:
        while (await client.get("/ready")).is_error:
            await pause(system_clock, _LOOK_EVERY_S)


async def _print_groups(console: Console, client: "httpx.AsyncClient") -> None:
    console.print("\n[bold cyan]What failed, by cause[/]")
    _print_request(console, "GET /api/v1/groups")
    groups = await _asked(client, "GET", "/groups")
    for group in sorted(groups, key=lambda each: -each["count"]):
        console.print(Text(f"    {group['count']:>6,} x {group['title'].rpartition('.')[0] or group['title']}"))


async def _recover(console: Console, client: "httpx.AsyncClient") -> None:
    console.print("\n[bold cyan]The provider answers again: recover what it left behind[/]")
    wanted = {"filter": _OUTAGE, "canary": {"count": _CANARY}, "reason": "the payment provider is back"}
    _print_request(console, f"POST /api/v1/operations  {_OUTAGE}, first {_CANARY}")
    operation = await _asked(client, "POST", "/operations", json=wanted, headers={"Idempotency-Key": "demo"})
    columns = (TextColumn("   "), BarColumn(40), MofNCompleteColumn(), TextColumn("confirmed by the worker"))
    with Progress(*columns, console=console) as bar:
        done = operation["progress"]
        task = bar.add_task("", total=done["total"])
        async for done in _followed(client, operation["number"]):
            bar.update(task, completed=done["succeeded"], total=done["total"])
    left = await _asked(client, "GET", "/failures/count", params={"q": _OUTAGE})
    console.print(
        f"    {done['succeeded']:,} of {done['total']:,} succeeded, {left['count']} unresolved", style="green"
    )


async def _followed(client: "httpx.AsyncClient", number: int) -> AsyncGenerator[dict[str, Any]]:
    """Yield how far an operation is, until each of its messages has been handled."""
    while True:
        operation = await _asked(client, "GET", f"/operations/{number}")
        done = operation["progress"]
        yield done
        if operation["state"] in ("paused", "cancelled"):
            raise AssertionError(f"the operation is {operation['state']}: {operation['state_reason']}")
        if operation["state"] == "completed" and done["succeeded"] + done["failed_again"] >= done["total"]:
            return
        await pause(system_clock, _LOOK_EVERY_S)


async def _print_journey(console: Console, client: "httpx.AsyncClient") -> None:
    console.print("\n[bold cyan]The way of one order[/]")
    (failure,) = await _asked(client, "GET", "/failures", params={"q": f"{_OUTAGE} status:resolved", "limit": 1})
    _print_request(console, f"GET /api/v1/journeys/{failure['message_id']}")
    journey = await _asked(client, "GET", f"/journeys/{failure['message_id']}")
    for node in journey["nodes"]:
        console.print(
            Text(f"    {node['begin'][11:19]}  {node['layer']:<9} {node['title']}: {node['state']}", style="dim")
        )


async def _asked(client: "httpx.AsyncClient", method: str, path: str, **more: Any) -> Any:  # noqa: ANN401 - JSON
    response = await client.request(method, path, **more)
    response.raise_for_status()
    return response.json()


def _print_request(console: Console, request: str) -> None:
    console.print(Text(f"    {request}", style="bold"))
