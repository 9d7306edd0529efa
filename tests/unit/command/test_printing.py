"""What others wrote into bodies, names, ids and refusals does nothing to the terminal of who looks at it."""

import ast
import asyncio
import json
import logging
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import ternmq_command
from ternmq_command.demo.display import BarDisplay, LineDisplay
from ternmq_command.exit_codes import exit_with_code
from ternmq_command.terminal.failures import CommandFailure
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.client.scripted_server import ScriptedServer
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.messaging_server import message

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eevil\u2028\x7f"
SHOWN = "\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\u202eevil\\u2028\\x7f"
FORGED = "x\n2026-08-01T12:00:00.000Z  queue 0 offset 9  all is well"
FORGED_SHOWN = FORGED.replace("\n", "\\n")


def acts(text: str) -> list[str]:
    """What of it acts on a terminal."""
    return [character for character in text if not (character.isprintable() or character in "\n\t")]


def hostile_message(body: str = f"{HOSTILE}\n\tsecond line") -> pb.Message:
    return message(body, message_id=f"id{HOSTILE}", keys=(HOSTILE,), tag=HOSTILE, properties={HOSTILE: FORGED})


# --- messages


def put_hostile(server: AdminServer, topic: str, *body: str) -> None:
    server.memory.make(topic, 1)
    server.memory.put(topic, 0, hostile_message(*body), stored_ms=1)


def test_a_message_is_one_line_whatever_is_in_its_body(call_server: Call, server: AdminServer) -> None:
    put_hostile(server, "orders", FORGED)
    result = call_server("tail", "orders", "--from-beginning", "--max", "1")
    assert result.stdout.count("\n") == 1
    assert not acts(result.stdout)
    assert FORGED_SHOWN in result.stdout
    assert f"tag={SHOWN}  keys={SHOWN}" in result.stdout


def test_raw_prints_a_message_as_it_came(call_server: Call, server: AdminServer) -> None:
    put_hostile(server, "orders")
    result = call_server("tail", "orders", "--from-beginning", "--max", "1", "--raw")
    assert result.stdout.endswith(f"tag={HOSTILE}  keys={HOSTILE}  {HOSTILE}\n\tsecond line\n")


@pytest.mark.parametrize(("options", "expected"), [((), SHOWN), (("--raw",), HOSTILE)])
async def test_received_messages_are_printed_so_too(call: Call, options: tuple[str, ...], expected: str) -> None:
    async with ScriptedServer() as scripted:
        scripted.deliver(hostile_message(HOSTILE))
        arguments = ("receive", "orders", "--group", "g", "--max", "1", "--wait", "1s", *options)
        result = await asyncio.to_thread(call, *arguments, env={"TERNMQ_ENDPOINT": scripted.endpoint})
    assert result.stdout.endswith(f"  {expected}\n"), result.stderr


def test_a_body_that_is_shown_whole_keeps_its_lines_and_tabs_only(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "billing")
    put_hostile(server, "%DLQ%billing")
    shown = call_server("dlq", "show", "billing", "0").stdout
    assert not acts(shown)
    assert shown.endswith(f"\n\nproperties\n  {SHOWN}  {FORGED_SHOWN}\n\n{SHOWN}\n\tsecond line\n")
    raw = call_server("dlq", "show", "billing", "0", "--raw").stdout
    assert raw.endswith(f"\n\nproperties\n  {HOSTILE}  {FORGED}\n\n{HOSTILE}\n\tsecond line\n")
    assert not acts(call_server("dlq", "list", "billing").stdout)


def test_the_message_of_a_transaction_is_shown_so_too(call_server: Call, server: AdminServer) -> None:
    put = server.transactions.put(1, body=HOSTILE.encode())
    assert call_server("transaction", "show", put.transaction_id).stdout.endswith(f"\n\n{SHOWN}\n")
    assert call_server("transaction", "show", put.transaction_id, "--raw").stdout.endswith(f"\n\n{HOSTILE}\n")


@pytest.mark.parametrize("command", [("tail", "orders", "--from-beginning", "--max", "1", "--json")])
def test_json_says_what_came_and_nothing_to_a_terminal(
    call_server: Call, server: AdminServer, command: tuple[str, ...]
) -> None:
    put_hostile(server, "orders")
    text = call_server(*command).stdout
    assert not acts(text)
    assert json.loads(text)["body"] == f"{HOSTILE}\n\tsecond line"


def test_an_export_to_standard_output_does_nothing_either(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "billing")
    put_hostile(server, "%DLQ%billing")
    text = call_server("dlq", "export", "billing", "-").stdout
    assert not acts(text)
    assert json.loads(text)["properties"] == {HOSTILE: FORGED}


# --- what clients call themselves, and what servers say


def test_a_client_cannot_write_rows_of_a_group(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "billing")
    server.members = [admin_pb2.Member(client_id=f"a{HOSTILE}\nb  PUSH", subscriptions={"orders": HOSTILE})]
    server.inconsistencies = [f"orders{HOSTILE}\nall is well"]
    text = call_server("group", "describe", "billing").stdout
    assert not acts(text)
    assert f"a{SHOWN}\\nb  PUSH" in text
    assert f"WARNING: orders{SHOWN}\\nall is well\n" in text
    assert not acts(call_server("group", "describe", "billing", "--json").stdout)


def test_a_refusal_is_one_line_and_does_nothing(call_server: Call) -> None:
    result = call_server("topic", "describe", HOSTILE)
    assert result.exit_code == 1
    assert not acts(result.stderr)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "failure",
    [CommandFailure(HOSTILE), click.FileError("f", HOSTILE), click.UsageError(HOSTILE), click.NoSuchOption(HOSTILE)],
)
def test_every_kind_of_failure_is_escaped(failure: click.ClickException, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise failure

    with pytest.raises(SystemExit):
        exit_with_code(fail)
    text = capsys.readouterr().err
    assert "evil" in text
    assert text.count("\n") == 1
    assert not acts(text)


def test_a_warning_of_the_library_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    def warn() -> None:
        assert logging.lastResort is not None
        logging.lastResort.handle(logging.LogRecord("ternmq", logging.WARNING, "", 1, "%s", (HOSTILE,), None))

    with pytest.raises(SystemExit):
        exit_with_code(warn)
    assert capsys.readouterr().err == f"{SHOWN}\n"


def test_a_name_that_is_no_utf8_is_shown_by_its_bytes(call: Call) -> None:
    name = b"no-\xff-such\x1b[31m".decode(errors="surrogateescape")
    result = call("apply", "-f", name)
    assert result.exit_code == 2
    assert "no-\\xff-such\\x1b[31m" in result.stderr


@pytest.mark.parametrize("display", [LineDisplay, BarDisplay])
def test_the_demo_says_what_brokers_said_escaped(
    display: type[LineDisplay] | type[BarDisplay], capsys: pytest.CaptureFixture[str]
) -> None:
    display(1).show_text(f"[bold]{HOSTILE}")
    text = capsys.readouterr().err
    assert f"[bold]{SHOWN}" in text.replace("\n", "")
    assert not acts(text)


def test_no_command_writes_past_the_one_module_that_escapes() -> None:
    folder = Path(ternmq_command.__file__).parent
    around = {"echo", "secho", "print", "print_exc"}
    allowed = {"printing.py", "second_report.py", "display.py"}  # these two use rich, tested above and beside
    found = [
        f"{path.relative_to(folder)}:{node.lineno}"
        for path in sorted(folder.rglob("*.py"))
        if path.name not in allowed
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in around)
            or (isinstance(node.func, ast.Name) and node.func.id == "print")
        )
    ]
    assert found == []


def test_a_pipe_gets_no_colour() -> None:
    """`click.secho` leaves its own sequences out where nobody sees them."""
    from ternmq_command.terminal.printing import echo_warning

    assert CliRunner().invoke(click.command()(lambda: echo_warning(HOSTILE))).stdout == f"WARNING: {SHOWN}\n"
