"""The command against an admin service in this process, with an environment that says nothing about us."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ternmq_command.main import cli
from ternmq_command.terminal import confirmation, contexts
from ternmq_command.terminal.poll_intervals import PollIntervals
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.scripted_server import OK, TOPIC, ScriptedServer
from tests.unit.command.admin_server import AdminServer

Call = Callable[..., Result]
Send = Callable[..., Awaitable[Result]]
AT_ONCE = PollIntervals(draining_s=0, leader_s=0, registry_s=0.01)


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("TERNMQ_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(contexts, "contexts_file", lambda: tmp_path / "settings" / "contexts.json")


@pytest.fixture
def call() -> Call:
    """`call("topic", "list", env={...})`, as a shell would; it waits for nothing."""

    def invoke(*arguments: str, stdin: str | None = None, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(cli, arguments, input=stdin, env=env, obj=AT_ONCE)

    return invoke


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nothing answers: bound, and nobody listens."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{kept.getsockname()[1]}"


@pytest.fixture
def server() -> Iterator[AdminServer]:
    with AdminServer() as running:
        yield running


@pytest.fixture
def call_server(call: Call, server: AdminServer) -> Call:
    """Like `call`, at the admin service."""

    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        return call(*arguments, stdin=stdin, env={"TERNMQ_ENDPOINT": server.endpoint})

    return invoke


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person is at standard input, so commands ask; `stdin` is what the person answers."""
    monkeypatch.setattr(confirmation, "has_terminal", lambda: True)


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedServer]:
    """Gives every timed message a recall handle. It has no admin service, as other servers have none."""

    def stored(request: rpc.SendMessageRequest) -> rpc.SendMessageResponse:
        entries = []
        for message in request.messages:
            system = message.system_properties
            handle = "handle" if system.message_type == pb.DELAY else ""
            entries.append(rpc.SendResultEntry(status=OK, message_id=system.message_id, offset=7, recall_handle=handle))
        return rpc.SendMessageResponse(status=OK, entries=entries)

    async with ScriptedServer() as running:
        running.script("SendMessage", *[stored] * 3)
        yield running


@pytest.fixture
def send(call: Call, scripted: ScriptedServer) -> Send:
    """`await send("body", "--delay", "2h")`; the server runs meanwhile."""

    async def run(*arguments: str, stdin: str | None = None) -> Result:
        environ = {"TERNMQ_ENDPOINT": scripted.endpoint}
        return await asyncio.to_thread(call, "send", TOPIC, *arguments, stdin=stdin, env=environ)

    return run
