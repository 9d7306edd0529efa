"""Contexts, and which endpoint a command goes to."""

import json
import os
import stat

import pytest

from ternmq_command.terminal import contexts
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call

NOWHERE = "127.0.0.1:1"


def add(call: Call, name: str, endpoint: str) -> None:
    assert call("context", "add", name, "--endpoint", endpoint).exit_code == 0


def test_contexts_are_added_used_listed_and_removed(call: Call) -> None:
    assert "there are no contexts" in call("context", "list").stderr
    add(call, "prod", "mq.example.com:8081")
    add(call, "dev", "[::1]:8081")
    assert call("context", "use", "prod").stdout == "context prod is in use: mq.example.com:8081\n"
    plain = {"tls": False, "access_key": None, "credentials_file": None}
    assert json.loads(call("context", "list", "--json").stdout) == [
        {"name": "dev", "endpoint": "[::1]:8081", "in_use": False, **plain},
        {"name": "prod", "endpoint": "mq.example.com:8081", "in_use": True, **plain},
    ]
    removed = json.loads(call("context", "remove", "prod", "--json").stdout)
    assert removed == {"name": "prod", "endpoint": "mq.example.com:8081", "in_use": False}
    assert [one["in_use"] for one in json.loads(call("context", "list", "--json").stdout)] == [False]


def test_the_file_is_its_users_alone_and_replaced_as_a_whole(call: Call) -> None:
    before = os.umask(0)
    try:
        add(call, "a", NOWHERE)
        add(call, "b", NOWHERE)
    finally:
        os.umask(before)
    file = contexts.contexts_file()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]


def test_a_write_that_fails_leaves_the_old_file(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    add(call, "a", NOWHERE)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = call("context", "remove", "a")
    assert (result.exit_code, "No space left on device" in result.stderr) == (1, True)
    assert list(contexts.contexts_file().parent.iterdir()) == [contexts.contexts_file()]
    assert contexts.read_contexts().servers == {"a": (NOWHERE, {})}


def test_the_endpoint_is_that_of_the_option_then_the_variable_then_the_context(call: Call, server: AdminServer) -> None:
    add(call, "here", server.endpoint)
    add(call, "nowhere", NOWHERE)
    call("context", "use", "here")
    here, nowhere = {"TERNMQ_ENDPOINT": server.endpoint}, {"TERNMQ_ENDPOINT": NOWHERE}
    codes = [
        call("topic", "list").exit_code,
        call("--context", "nowhere", "topic", "list").exit_code,
        call("topic", "list", env={"TERNMQ_CONTEXT": "nowhere"}).exit_code,
        call("--context", "here", "topic", "list", env={"TERNMQ_CONTEXT": "nowhere"}).exit_code,
        call("topic", "list", env=nowhere).exit_code,
        call("--context", "nowhere", "topic", "list", env=here).exit_code,
        call("topic", "list", "--endpoint", server.endpoint, env=nowhere).exit_code,
    ]
    assert codes == [0, 3, 3, 0, 3, 3, 0]


def test_without_a_context_it_is_the_default_and_help_says_so(call: Call) -> None:
    text = " ".join(call("topic", "list", "--help").stdout.split())
    assert "TERNMQ_ENDPOINT" in text
    assert "that of the context in use, else 127.0.0.1:8081" in text
    assert contexts.server_in_use(None) is None


@pytest.mark.parametrize(
    "arguments", [("context", "use", "prod"), ("context", "remove", "prod"), ("--context", "prod", "topic", "list")]
)
def test_a_context_that_is_not_there_is_wrong_usage(call: Call, arguments: tuple[str, ...]) -> None:
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("ternmq: there is no context 'prod'; ")


@pytest.mark.parametrize("name", ["", "-x", "a b", "a\x1b", "ü", "x" * 65])
def test_a_name_is_of_few_letters(call: Call, name: str) -> None:
    result = call("context", "add", "--endpoint", NOWHERE, "--", name)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "is no name" in result.stderr


def test_a_name_that_is_taken_is_not_given_another_endpoint(call: Call) -> None:
    add(call, "prod", NOWHERE)
    add(call, "prod", NOWHERE)
    result = call("context", "add", "prod", "--endpoint", "127.0.0.1:2")
    assert (result.exit_code, result.stderr) == (
        1,
        "ternmq: context 'prod' is 127.0.0.1:1; first `ternmq context remove prod`\n",
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b" " * (contexts.FILE_BYTES_MAX + 1),
        b'{"in_use": null}',
        b'{"in_use": 1, "contexts": {}}',
        b'{"in_use": "a", "contexts": {}}',
        b'{"in_use": null, "contexts": {}, "more": 1}',
        b'{"in_use": null, "contexts": {"a": "127.0.0.1:1"}}',
        b'{"in_use": null, "contexts": {"a": {"endpoint": "nowhere"}}}',
        b'{"in_use": null, "contexts": {"a b": {"endpoint": "127.0.0.1:1"}}}',
        b'{"in_use": null, "contexts": {"a": {"endpoint": "127.0.0.1:1", "secret_key": "hush"}}}',
        b'{"in_use": null, "contexts": {"a": {"endpoint": "127.0.0.1:1", "tls": "yes"}}}',
    ],
    ids=range(15),
)
def test_a_damaged_file_is_one_clear_line_and_not_overwritten(call: Call, content: bytes) -> None:
    file = contexts.contexts_file()
    file.parent.mkdir()
    file.write_bytes(content)
    for arguments in (("topic", "list"), ("context", "list"), ("context", "add", "a", "--endpoint", NOWHERE)):
        result = call(*arguments)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
        assert f"{file} is damaged: " in result.stderr
    assert call("topic", "--help").exit_code == 0
    assert file.read_bytes() == content


def test_a_variable_that_goes_before_contexts_is_told(call: Call) -> None:
    add(call, "prod", NOWHERE)
    result = call("context", "use", "prod", env={"TERNMQ_ENDPOINT": "127.0.0.1:2"})
    told = "ternmq: TERNMQ_ENDPOINT is set to 127.0.0.1:2, which takes precedence over any context\n"
    assert result.stderr == told
    both = call("topic", "list", env={"TERNMQ_ENDPOINT": "127.0.0.1:2", "TERNMQ_CONTEXT": "prod"}).stderr
    assert "127.0.0.1:2" in both
    typed = call("--context", "prod", "topic", "list", env={"TERNMQ_ENDPOINT": "127.0.0.1:2"}).stderr
    assert NOWHERE in typed
