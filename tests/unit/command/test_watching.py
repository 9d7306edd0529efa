"""Commands that look at a running server: client list, status, log-level, top, diag; and completion of names."""

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import tarfile
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from ternmq import Message
from ternmq.admin import topics as topic_calls
from ternmq.blocking import Producer, SimpleConsumer
from ternmq_command.calls.admin import AdminClient
from ternmq_command.completion.name_completion import find_kind
from ternmq_command.exit_codes import INTERRUPTED
from ternmq_command.main import COMMANDS, cli
from tests.support.stack import Stack
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call

SECRETS = ("hunter2-of-the-collector", "hunter2-in-the-log", "hunter2-of-a-header")
TOPIC, GROUP = "orders", "billing"
KEYS_TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A server with a topic that has three messages, of which a group has taken one."""
    with Stack(tmp_path_factory.mktemp("watched")) as running:
        with Producer(running.grpc, topics=[TOPIC]) as producer:
            for number in range(3):
                producer.send(Message(TOPIC, b"%d" % number))
        with SimpleConsumer(running.grpc, group=GROUP, subscriptions={TOPIC: "*"}) as consumer:
            consumer.ack(consumer.receive(max_messages=1))
        yield running


@pytest.fixture
def ask(call: Call, stack: Stack) -> "Callable[..., tuple[int, str, str]]":
    def asked(*arguments: str) -> tuple[int, str, str]:
        result = call(*arguments, env={"TERNMQ_ENDPOINT": stack.grpc})
        return result.exit_code, result.stdout, result.stderr

    return asked


Ask = Callable[..., tuple[int, str, str]]


# --- client list


def test_clients_are_listed_with_language_group_and_topics(ask: Ask, stack: Stack) -> None:
    with SimpleConsumer(stack.grpc, group=GROUP, subscriptions={TOPIC: "*"}):
        code, out, _ = ask("client", "list", "--group", GROUP, "--json")
        (record,) = map(json.loads, out.splitlines())
        assert (code, record["language"], record["type"]) == (0, "python", "simple_consumer")
        assert (record["group"], record["topics"]) == (GROUP, [TOPIC])
        assert record["address"].startswith("127.0.0.1:")
        code, out, err = ask("client", "list", "--topic", TOPIC)
        assert code == 0
        assert record["client_id"] in out
        assert "1 client" in err
    code, out, err = ask("client", "list", "--group", "nobody")
    assert (code, out) == (0, "")
    assert "no such clients" in err


# --- status


def test_the_status_of_a_server_that_is_well_is_a_line_a_component_and_exit_code_0(ask: Ask) -> None:
    code, out, _ = ask("status")
    assert code == 0
    assert [line.split()[::2] for line in out.splitlines()[1:]] == [
        ["server", "well"],
        ["registry", "well"],
        ["broker", "well"],
    ]
    record = json.loads(ask("status", "--json")[1])
    assert record["well"]
    assert {each["component"] for each in record["components"]} == {"server", "registry", "broker"}


def test_the_status_of_nobody_is_exit_code_3(call: Call, nobody: str) -> None:
    assert call("status", "--endpoint", nobody).exit_code == 3


def test_a_server_that_is_too_old_is_said_to_be(call: Call) -> None:
    with AdminServer() as server:
        for command in ("status", "client list", "log-level"):
            result = call(*command.split(), "--endpoint", server.endpoint)
            assert result.exit_code == 1
            assert "does not have this call" in result.stderr


# --- log-level


def test_a_running_server_logs_what_it_is_told_to_and_by_whom(ask: Ask, stack: Stack) -> None:
    assert ask("log-level")[1].split() == ["PROCESS", "LEVELS", "broker-0", "info"]
    code, out, _ = ask("log-level", "error,ternmq_rpc=debug", "--json")
    assert (code, json.loads(out)) == (
        0,
        {"processes": [{"process": "broker-0", "levels": "error,ternmq_rpc=debug"}], "silent": []},
    )
    ask("topic", "create", "not-told")
    assert ask("log-level", "info")[0] == 0
    ask("topic", "create", "told")
    log = stack.log.read_text()
    assert "log levels: error,ternmq_rpc=debug, after info; changed by client ternmq-command@" in log
    assert "log levels: info, after error,ternmq_rpc=debug" in log
    assert "topic told" in log
    assert "topic not-told" not in log
    assert ask("log-level", "loud")[0] == 2


# --- top


def test_top_tells_rates_and_lags_once_as_a_table_or_as_json(ask: Ask) -> None:
    code, out, _ = ask("top", "--once", "--interval", "100ms", "--topic", TOPIC, "--json")
    told = json.loads(out)
    assert code == 0
    assert [(row["topic"], row["messages"], row["in_per_s"]) for row in told["topics"]] == [(TOPIC, 3, 0.0)]
    assert [(row["group"], row["lag"]) for row in told["groups"] if row["group"] == GROUP] == [(GROUP, 2)]
    code, out, _ = ask("top", "--once", "--interval", "100ms")
    assert code == 0
    assert "TOPIC" in out
    assert "GROUP" in out
    assert "\x1b" not in out
    assert ask("top", "--interval", "1ms")[0] == 2


def test_top_on_a_terminal_draws_again_and_again_and_q_leaves_it_as_it_was(stack: Stack) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ternmq_command.main", "top", "--interval", "100ms", "--endpoint", stack.grpc]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        os.close(theirs)
        try:
            seen = read_until(ours, lambda text: text.count("ternmq top") >= 3)
            os.write(ours, b"q")
            seen += read_until(ours, lambda text: text.endswith("\x1b[?1049l"))
            assert process.wait(KEYS_TIMEOUT_S) == 0
        finally:
            process.kill()
            os.close(ours)
    assert seen.startswith("\x1b[?1049h\x1b[?25l")
    assert TOPIC in seen
    assert GROUP in seen


def test_ctrl_c_leaves_the_terminal_as_it_was_with_exit_code_130(stack: Stack) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "ternmq_command.main", "top", "--endpoint", stack.grpc]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        try:
            read_until(ours, lambda text: "ternmq top" in text)
            assert termios.tcgetattr(theirs)[3] & termios.ICANON == 0
            process.send_signal(signal.SIGINT)
            read_until(ours, lambda text: "\x1b[?1049l" in text)
            assert process.wait(KEYS_TIMEOUT_S) == INTERRUPTED
            assert termios.tcgetattr(theirs) == before
        finally:
            process.kill()
            os.close(theirs)
            os.close(ours)


def test_top_goes_on_through_a_restart_of_the_server(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        command = [sys.executable, "-m", "ternmq_command.main", "top", "--interval", "100ms", "--json"]
        environ = {**os.environ, "TERNMQ_ENDPOINT": stack.grpc}
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                assert json.loads(process.stdout.readline())["topics"] == []
                stack.terminate()
                assert b"trying again" in process.stderr.readline()
                stack.start()
                with AdminClient(stack.grpc) as admin:
                    admin.send_call(topic_calls.create_topic("made-since", "normal", 1))
                while [row["topic"] for row in json.loads(process.stdout.readline())["topics"]] != ["made-since"]:
                    assert process.poll() is None
            finally:
                process.kill()


def read_until(terminal: int, enough: Callable[[str], bool]) -> str:
    seen, end = "", time.monotonic() + KEYS_TIMEOUT_S
    while not enough(seen):
        ready, _, _ = select.select([terminal], [], [], end - time.monotonic())
        assert ready, f"no more came than {seen!r}"
        seen += os.read(terminal, 65536).decode()
    return seen


# --- diag


def test_a_bundle_says_all_of_a_server_and_has_none_of_its_secrets(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERNMQ_OTLP_ENDPOINT", f"http://ternmq:{SECRETS[0]}@127.0.0.1:4317")
    with Stack(tmp_path / "server") as stack:
        log = tmp_path / "server.log"
        log.write_text(f"x-mq-session-token: {SECRETS[1]}\nauthorization: Bearer {SECRETS[2]}\nthe last line\n")
        out = tmp_path / "bundle.tar.gz"
        with Producer(stack.grpc, topics=[TOPIC]) as producer:
            producer.send(Message(TOPIC, b"a body"))
            arguments = ("diag", "--out", str(out), "--endpoint", stack.grpc, "--http", stack.http, "--log", str(log))
            result = call(*arguments)
        assert result.exit_code == 0, result.output
        assert call(*arguments).exit_code == 2, "it must not write over a file"
    assert out.stat().st_mode & 0o077 == 0
    files = unpacked(out)
    manifest = json.loads(files.pop("manifest.json"))
    assert {part["file"] for part in manifest["parts"]} == files.keys()
    assert [part["problem"] for part in manifest["parts"] if part["problem"]] == []
    assert json.loads(files["status.json"])["well"]
    assert json.loads(files["processes.json"])[0]["settings"]["otlp_endpoint"].startswith("http://ternmq:***@")
    assert [topic["name"] for topic in json.loads(files["topics.json"])] == [TOPIC]
    assert [shard["replicas"] for shard in json.loads(files["shards.json"])] == [[]]
    assert len(json.loads(files["clients.json"])) == 1
    assert "thread MainThread" in files["threads-broker-0.txt"]
    assert "ternmq_" in files["metrics.txt"]
    assert files["log.txt"].endswith("the last line\n")
    whole = "\n".join([json.dumps(manifest), *files, *files.values()])
    assert [secret for secret in (*SECRETS, "a body") if secret in whole] == []


def test_a_bundle_of_a_server_that_is_gone_says_what_is_missing(call: Call, tmp_path: Path, nobody: str) -> None:
    out = tmp_path / "bundle.tar.gz"
    result = call("diag", "--out", str(out), "--endpoint", nobody, "--http", nobody, "--json")
    assert result.exit_code == 3
    problems = {part["file"]: part["problem"] for part in json.loads(unpacked(out)["manifest.json"])["parts"]}
    assert problems["command.json"] is None
    assert "can't reach" in problems["server.json"]
    assert "nothing answers" in problems["metrics.txt"]


def unpacked(bundle: Path) -> dict[str, str]:
    with tarfile.open(bundle) as archive:
        files = {}
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            files[member.name.partition("/")[2]] = file.read().decode()
        return files


# --- completion of names


def offered(words: str, **environ: str) -> list[str]:
    """What a shell gets for the word behind these."""
    count = len(words.split())
    asked = {"_TERNMQ_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count), **environ}
    command = [sys.executable, "-m", "ternmq_command.main"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_names_of_topics_and_groups_are_completed_from_the_server(stack: Stack) -> None:
    assert TOPIC in offered("ternmq tail", TERNMQ_ENDPOINT=stack.grpc)
    assert TOPIC in offered(f"ternmq topic describe --endpoint {stack.grpc}")
    assert offered("ternmq group describe", TERNMQ_ENDPOINT=stack.grpc) == [GROUP]
    assert offered(f"ternmq receive {TOPIC} --group", TERNMQ_ENDPOINT=stack.grpc) == [GROUP]


def test_names_of_shards_and_of_their_replicas_are_completed_from_the_server(server: AdminServer) -> None:
    server.brokers.put_replicas("broker-0", a=1, b=2)
    server.brokers.put("broker-1")
    assert offered("ternmq shard show", TERNMQ_ENDPOINT=server.endpoint) == ["broker-0", "broker-1"]
    assert offered("ternmq shard move-leader", TERNMQ_ENDPOINT=server.endpoint) == ["broker-0", "broker-1"]
    assert offered("ternmq shard move-leader broker-0", TERNMQ_ENDPOINT=server.endpoint) == ["a", "b"]
    assert offered("ternmq shard move-leader broker-1", TERNMQ_ENDPOINT=server.endpoint) == []
    assert offered("ternmq shard move-leader broker-2", TERNMQ_ENDPOINT=server.endpoint) == []


def test_completion_without_a_server_or_with_one_that_is_silent_says_nothing(nobody: str) -> None:
    assert offered("ternmq tail", TERNMQ_ENDPOINT=nobody) == []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert offered("ternmq tail", TERNMQ_ENDPOINT=f"127.0.0.1:{silent.getsockname()[1]}") == []


def test_every_argument_of_a_topic_a_group_a_shard_or_a_replica_is_completed() -> None:
    kinds = ("topic", "group", "shard", "replica")
    context = click.Context(cli)
    missing = []
    for name in COMMANDS:
        for path, command in commands_of(cli.get_command(context, name), (name,)):
            if not any(parameter.name == "endpoint" for parameter in command.params):
                continue
            for parameter in command.params:
                is_name = isinstance(parameter, click.Argument) and parameter.name in kinds
                if is_name and find_kind(parameter, command, name) is None and type(parameter.type).__name__ != "_Name":
                    missing.append((*path, parameter.name))
    assert missing == []


def commands_of(
    command: click.Command | None, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    assert command is not None
    yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from commands_of(below, (*path, name))
