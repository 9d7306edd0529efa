"""`--json`: every command that tells something has it, and a failure is JSON too."""

import json
import socket
from collections.abc import Iterator, Mapping

import click
import pytest

from ternmq_command.main import COMMANDS, cli
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.admin_server import OK, AdminServer
from tests.unit.command.conftest import Call

# Servers, what is for a file, and what writes JSON without being asked.
WITHOUT = {
    ("up",),
    ("broker",),
    ("proxy",),
    ("completion",),
    ("dlq", "export"),
    ("store", "export"),
    ("topic", "export"),
    ("user", "generate-key"),
}


def leaves(commands: Mapping[str, click.Command | None], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in commands.items():
        assert command is not None
        if isinstance(command, click.Group):
            names = command.list_commands(click.Context(command))
            yield from leaves(
                {each: command.get_command(click.Context(command), each) for each in names}, (*path, name)
            )
            if not command.invoke_without_command:
                continue
        yield (*path, name)


def every_leaf() -> list[tuple[str, ...]]:
    return list(leaves({name: cli.get_command(click.Context(cli), name) for name in COMMANDS}))


@pytest.mark.parametrize("path", every_leaf(), ids=" ".join)
def test_every_command_that_tells_something_has_json(call: Call, path: tuple[str, ...]) -> None:
    assert ("--json" in call(*path, "--help").stdout) is (path not in WITHOUT)


@pytest.mark.parametrize("kind", ["topic", "group"])
def test_a_deletion_is_told_to_programs(call_server: Call, kind: str) -> None:
    call_server(kind, "create", "orders")
    result = call_server(kind, "delete", "orders", "--yes", "--json")
    assert json.loads(result.stdout).items() >= {"name": "orders", "deleted": True}.items()


def test_what_was_done_to_a_broker_is_told_to_programs(call_server: Call, server: AdminServer) -> None:
    server.brokers.put("a")
    for arguments, told in (
        (("permission", "a", "read"), {"permission": "read"}),
        (("resume", "a"), {"draining": False}),
        (("remove", "a", "--yes"), {"name": "a", "removed": True}),
    ):
        shown = json.loads(call_server("broker", *arguments, "--json").stdout)
        assert shown.items() >= told.items()


def test_what_remains_on_a_broker_is_told_to_programs_whenever_it_changes(
    call_server: Call, server: AdminServer
) -> None:
    server.brokers.put("a")
    backlog = admin_pb2.Backlog(group="g", topic="orders", messages=3)
    some = admin_pb2.BrokerRemainingResponse(status=OK, backlogs=[backlog], timers=1)
    server.brokers.remaining = [some, some, admin_pb2.BrokerRemainingResponse(status=OK)]
    first, last = map(json.loads, call_server("broker", "drain", "a", "--wait", "--json").stdout.splitlines())
    assert first == {
        "name": "a",
        "draining": True,
        "backlogs": [{"group": "g", "topic": "orders", "messages": 3}],
        "timed_messages": 1,
        "transactions": 0,
    }
    assert (last["backlogs"], last["timed_messages"]) == ([], 0)


# --- failures


def failure_of(call: Call, *arguments: str, exit_code: int) -> dict[str, str | None]:
    result = call(*arguments, "--json")
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert len(result.stderr.splitlines()) == 1
    told = json.loads(result.stderr)
    assert list(told) == ["error"]
    assert list(told["error"]) == ["code", "message", "hint"]
    error: dict[str, str | None] = told["error"]
    return error


def test_a_refusal_has_the_name_of_the_servers_code(call_server: Call, server: AdminServer) -> None:
    server.memory.before = lambda method, _: pb.Status(code=pb.BAD_REQUEST, message=f"{method}:\nit was delivered")
    assert failure_of(call_server, "recall", "orders", "handle", exit_code=1) == {
        "code": "BAD_REQUEST",
        "message": "RecallMessage: it was delivered",
        "hint": None,
    }


def test_a_server_that_is_not_there_comes_with_a_hint(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = failure_of(call, "topic", "list", "--endpoint", f"127.0.0.1:{port}", exit_code=3)
    assert error == {
        "code": "UNREACHABLE",
        "message": f"can't reach a broker at 127.0.0.1:{port} (connection refused)",
        "hint": "start one with `ternmq up`, or name another with --endpoint",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("topic", "list", "--nonsense"), "No such option"),
        (("topic", "nonsense"), "No such command 'nonsense'"),
        (("topic", "create"), "Missing argument 'NAME'"),
        (("topic", "create", "x", "--queues", "0"), "0 is not in the range"),
        (("topic", "update", "x"), "nothing to change; give --queues"),
        (("topic", "delete", "x"), "--yes"),
        (("config", "--segment-size", "1KiB"), "1MiB to 2GiB is allowed"),
    ],
)
def test_wrong_usage_is_json_too(call: Call, arguments: tuple[str, ...], message: str) -> None:
    error = failure_of(call, *arguments, exit_code=2)
    assert error["code"] == "USAGE"
    assert message in str(error["message"])


def test_a_failure_of_no_kind_is_told_so_too(call: Call, server: AdminServer) -> None:
    server.ahead = None
    error = failure_of(call, "clock", "show", "--endpoint", server.endpoint, exit_code=1)
    assert (error["code"], error["hint"]) == ("FAILED", None)


def test_what_follows_a_double_dash_is_no_option(call: Call) -> None:
    result = call("topic", "describe", "--", "--json", "too many")
    assert (result.exit_code, result.stderr[:6]) == (2, "ternmq")
