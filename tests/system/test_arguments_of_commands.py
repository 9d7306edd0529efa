"""Arguments of the command that no server can be told."""

import os

import pytest

from tests.support.command_line import CommandLine

NOT_UTF8 = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    "words",
    [
        ("send", "orders", NOT_UTF8),
        ("send", NOT_UTF8, "x"),
        ("send", "orders", "x", "--tag", NOT_UTF8),
        ("send", "orders", "x", "--key", NOT_UTF8),
        ("send", "orders", "x", "--property", f"a={NOT_UTF8}"),
        ("send", "orders", "x", "--message-group", NOT_UTF8),
        ("receive", "orders", "--group", NOT_UTF8),
        ("receive", "orders", "--group", "g", "--filter", NOT_UTF8),
        ("topic", "create", NOT_UTF8),
        ("topic", "describe", NOT_UTF8),
        ("topic", "list", "--search", NOT_UTF8),
        ("group", "create", NOT_UTF8),
        ("group", "describe", NOT_UTF8),
        ("recall", "orders", NOT_UTF8),
        ("message", "get", "orders", NOT_UTF8),
        ("message", "find", "orders", "--key", NOT_UTF8),
        ("user", "create", NOT_UTF8),
        ("client", "list", "--group", NOT_UTF8),
    ],
    ids=" ".join,
)
def test_what_is_no_utf_8_is_named_in_one_line(command: CommandLine, words: tuple[str, ...]) -> None:
    command.call("topic", "create", "orders")
    result = command.call(*words)
    assert result.exit_code in {1, 2}, result.exception
    [line] = result.stderr.splitlines()
    assert "caf" in line
    assert result.stdout == ""


def test_programs_read_so_too(command: CommandLine) -> None:
    result = command.call("topic", "create", NOT_UTF8, "--json")
    assert result.stderr.startswith('{"error": {"code": "USAGE", "message": "the argument \'caf\\\\xe9\' is not UTF-8"')
