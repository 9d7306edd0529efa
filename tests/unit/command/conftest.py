"""The command against an admin service in this process, with an environment that says nothing about us."""

import os
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from ternmq.command.main import cli
from tests.unit.command.admin_server import AdminServer

Call = Callable[..., Result]


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TERNMQ_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def call() -> Call:
    """`call("topic", "list", env={...})`, as a shell would."""

    def invoke(*arguments: str, stdin: str | None = None, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(cli, arguments, input=stdin, env=env)

    return invoke


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
    monkeypatch.setattr("ternmq.command.confirmation.at_terminal", lambda: True)
