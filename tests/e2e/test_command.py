"""The command as a user has it: processes, exit codes and output, against a real `ternmq up`."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.stack import Stack

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "ternmq_command.main")
Done = subprocess.CompletedProcess[str]
Call = Callable[..., Done]


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TERNMQ_")}
    return kept | variables


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture
def call(stack: Stack) -> Call:
    def run(*arguments: str, stdin: str = "") -> Done:
        return subprocess.run(
            [*COMMAND, *arguments],
            env=environment(TERNMQ_ENDPOINT=stack.grpc),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.fixture
def topic(call: Call, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own, with 4 queues."""
    name: str = request.node.name.replace("[", "_").replace("]", "_")[-100:]
    assert call("topic", "create", name, "--queues", "4").returncode == 0
    return name


def bodies(done: Done) -> list[str]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["body"] for line in done.stdout.splitlines()]


def test_topics_live_and_die(call: Call) -> None:
    assert call("topic", "create", "life", "--type", "fifo", "--queues", "3").stdout == "topic life created\n"
    assert call("topic", "create", "life", "--type", "fifo", "--queues", "3").returncode == 0
    refused = call("topic", "create", "life", "--type", "delay", "--queues", "3")
    assert refused.returncode == 1
    assert len(refused.stderr.splitlines()) == 1
    assert "life" in [entry["name"] for entry in json.loads(call("topic", "list", "--json").stdout)]
    described = json.loads(call("topic", "describe", "life", "--json").stdout)
    assert (described["type"], described["queues"], len(described["message_queues"])) == ("fifo", 3, 3)
    assert call("topic", "delete", "life", "--yes").returncode == 0
    gone = call("topic", "describe", "life")
    assert (gone.returncode, gone.stderr.partition(": ")[2].partition(":")[0]) == (1, "TOPIC_NOT_FOUND")


def test_a_server_becomes_what_a_file_declares_and_an_export_of_it_says_so(call: Call) -> None:
    assert call("topic", "create", "declared", "--type", "fifo", "--queues", "2").returncode == 0
    assert call("send", "made-by-use", "x").returncode == 0
    assert call("receive", "made-by-use", "--group", "made-by-use-too", "--max", "1").returncode == 0
    declared = json.dumps(
        {
            "topics": [
                {"name": "declared", "queues": 4, "permission": "read"},
                {"name": "declared-2", "type": "delay"},
            ],
            "groups": [
                {"name": "made-by-use-too", "max_attempts": 5, "retry_backoff": "exponential:1s,10m,2"},
                {"name": "declared", "consume_from": "2026-08-01T12:00", "assignment": "AVG_BY_CIRCLE"},
            ],
        }
    )
    applied = call("apply", "-f", "-", "--json", stdin=declared)
    assert applied.returncode == 0, applied.stderr
    assert [record["outcome"] for record in json.loads(applied.stdout)] == ["updated", "created", "updated", "created"]
    assert call("apply", "-f", "-", "--dry-run", stdin=declared).stdout == "nothing to do\n"
    for exported in (call("export"), call("export", "--json")):
        assert exported.returncode == 0, exported.stderr
        assert call("apply", "-f", "-", "--dry-run", stdin=exported.stdout).stdout == "nothing to do\n"
    topic = json.loads(call("topic", "describe", "declared", "--json").stdout)
    assert (topic["type"], topic["queues"], topic["permission"]) == ("fifo", 4, "read")
    fewer = json.dumps({"topics": [{"name": "declared", "queues": 3}, {"name": "never-made"}]})
    refused = call("apply", "-f", "-", stdin=fewer)
    assert (refused.returncode, "so nothing was changed" in refused.stderr) == (1, True)
    assert call("topic", "describe", "never-made").returncode == 1


def test_groups_live_and_die(call: Call) -> None:
    assert call("group", "create", "living", "--fifo", "--max-attempts", "3").returncode == 0
    assert call("group", "create", "living", "--fifo", "--max-attempts", "3").returncode == 0
    described = json.loads(call("group", "describe", "living", "--json").stdout)
    assert (described["fifo"], described["max_attempts"]) == (True, 3)
    assert call("group", "delete", "living", "--yes").returncode == 0
    assert call("group", "describe", "living").stderr.startswith("ternmq: CONSUMER_GROUP_NOT_FOUND: ")


def test_topics_and_groups_can_be_made_without_numbers(call: Call) -> None:
    assert call("topic", "create", "plain").returncode == 0
    assert call("topic", "create", "plain").returncode == 0
    assert call("group", "create", "plain").returncode == 0
    assert call("group", "create", "plain").returncode == 0


def test_what_is_sent_is_received_once(call: Call, topic: str) -> None:
    sent = call("send", topic, "hello", "--tag", "greeting", "--key", "k1", "--key", "k2", "--property", "a=b=c")
    assert sent.returncode == 0, sent.stderr
    received = call("receive", topic, "--group", "once", "--json", "--max", "1")
    record = json.loads(received.stdout)
    assert record["body"] == "hello"
    assert (record["tag"], record["keys"], record["properties"]) == ("greeting", ["k1", "k2"], {"a": "b=c"})
    assert record["message_id"] in sent.stdout
    again = call("receive", topic, "--group", "once", "--wait", "1s")
    assert (again.returncode, again.stdout) == (0, "")
    assert json.loads(call("group", "describe", "once", "--json").stdout)["progress"]


def test_lines_of_a_file_are_messages(call: Call, topic: str) -> None:
    lines = [f"line {number}" for number in range(250)]
    sent = call("send", topic, "--file", "-", "--json", stdin="\n".join([*lines, "", ""]))
    assert len(sent.stdout.splitlines()) == 250, sent.stderr
    received = bodies(call("receive", topic, "--group", "lines", "--json", "--max", "250", "--wait", "2s"))
    assert sorted(received) == sorted(lines)


def test_a_message_that_is_not_acknowledged_stays(call: Call, topic: str) -> None:
    call("send", topic, "stay")
    assert bodies(call("receive", topic, "--group", "peek", "--no-ack", "--json", "--max", "1")) == ["stay"]
    [progress] = [
        entry
        for entry in json.loads(call("group", "describe", "peek", "--json").stdout)["progress"]
        if entry["topic"] == topic and entry["end_offset"]
    ]
    assert (progress["in_flight"], progress["lag"]) == (1, 1)


def test_tags_filter(call: Call, topic: str) -> None:
    for tag in ("red", "green", "blue"):
        call("send", topic, f"a {tag} one", "--tag", tag)
    got = bodies(call("receive", topic, "--group", "colours", "--filter", "red || blue", "--json", "--wait", "2s"))
    assert sorted(got) == ["a blue one", "a red one"]


def test_tail_shows_old_messages_and_then_new_ones(call: Call, stack: Stack, topic: str) -> None:
    call("send", topic, "old")
    tail = [*COMMAND, "tail", topic, "--from-beginning", "--json"]
    environ = environment(TERNMQ_ENDPOINT=stack.grpc)
    with subprocess.Popen(tail, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["body"] == "old"
        call("send", topic, "new", "--tag", "t")
        assert json.loads(process.stdout.readline())["body"] == "new"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stderr.read().strip() == ""
    assert topic not in call("group", "list").stdout


def test_tail_filters_and_stops_after_max(call: Call, topic: str) -> None:
    for number in range(6):
        call("send", topic, str(number), "--tag", "even" if number % 2 == 0 else "odd")
    got = bodies(call("tail", topic, "--from-beginning", "--filter", "odd", "--max", "3", "--json"))
    assert sorted(got) == ["1", "3", "5"]


def test_a_file_of_topics_is_applied_twice(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "topics.yaml"
    file.write_text("topics: [{name: applied, type: delay, queues: 2}]\ngroups: [{name: applied, max_attempts: 4}]\n")
    first = json.loads(call("apply", "-f", str(file), "--json").stdout)
    assert [record["outcome"] for record in first] == ["created", "created"]
    second = json.loads(call("apply", "-f", str(file), "--json").stdout)
    assert [record["outcome"] for record in second] == ["unchanged", "unchanged"]


def test_bad_names_and_bodies_are_refused_by_name(call: Call, topic: str) -> None:
    assert call("topic", "create", "no spaces").stderr.startswith("ternmq: ILLEGAL_TOPIC: ")
    assert call("group", "create", "no spaces").stderr.startswith("ternmq: ILLEGAL_CONSUMER_GROUP: ")
    assert call("send", topic, "").stderr.startswith("ternmq: MESSAGE_BODY_EMPTY: ")
    assert call("send", topic, "x", "--message-group", "g").stderr.startswith(
        "ternmq: MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: "
    )


def test_the_server_tells_its_version(call: Call) -> None:
    info = json.loads(call("version", "--server", "--json").stdout)
    assert info["server"]
    assert info["server_resident_bytes"] > 1_000_000


@pytest.mark.parametrize(
    "arguments", [("version",), ("topic", "list"), ("config",), ("--help",), ("group", "list", "--json")], ids=" ".join
)
def test_a_call_answers_at_once(call: Call, arguments: tuple[str, ...]) -> None:
    """Four times what a Python costs that only imports gRPC, side by side: how fast the machine is does not count.

    Processor time is measured, since the clock also measures what else the machine does. The bound leaves a third above
    what is seen; a library that belongs to a server or to Spark costs more than that.
    """

    def seconds(run: Callable[[], object]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def only_imports() -> None:
        subprocess.run([sys.executable, "-c", "import asyncio, grpc.aio"], check=True)

    def answers() -> None:
        assert call(*arguments).returncode == 0

    pairs = [(seconds(only_imports), seconds(answers)) for _ in range(5)]
    assert min(ours for _, ours in pairs) < 4 * min(bare for bare, _ in pairs)


def failing_up(*options: str, **variables: str) -> Done:
    return subprocess.run(
        [*COMMAND, "up", "--http", "127.0.0.1:0", *options],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_second_stack_on_the_same_folder_is_refused(stack: Stack) -> None:
    done = failing_up("--data-dir", str(stack.data_dir), "--grpc", "127.0.0.1:0")
    assert (done.returncode, done.stdout) == (1, "")
    assert len([line for line in done.stderr.splitlines() if line.startswith("ternmq: ")]) == 1
    assert str(stack.data_dir) in done.stderr


def test_a_port_in_use_is_refused(stack: Stack, tmp_path: Path) -> None:
    done = failing_up("--data-dir", str(tmp_path / "data"), "--grpc", stack.grpc)
    assert (done.returncode, done.stdout) == (1, "")
    assert stack.grpc in done.stderr


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    done = failing_up("--data-dir", str(tmp_path), TERNMQ_RETENTON_MS="3d")
    assert done.returncode == 2
    assert done.stderr == "ternmq: unknown variable TERNMQ_RETENTON_MS; did you mean 'TERNMQ_RETENTION_MS'?\n"


def test_without_auto_create_an_unknown_topic_is_refused(tmp_path: Path) -> None:
    with Stack(tmp_path, "--no-auto-create") as strict:
        done = subprocess.run(
            [*COMMAND, "send", "nobody-made-this", "x", "--endpoint", strict.grpc],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("ternmq: TOPIC_NOT_FOUND: ")


def test_the_stack_ends_cleanly_and_keeps_what_it_was_sent(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        environ = environment(TERNMQ_ENDPOINT=stack.grpc)
        sent = subprocess.run([*COMMAND, "send", "kept", "safe"], env=environ, capture_output=True, check=False)
        assert sent.returncode == 0
        stack.kill9()
        stack.start()
        received = subprocess.run(
            [*COMMAND, "receive", "kept", "--group", "g", "--json"],
            env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert bodies(received) == ["safe"]
        assert stack.terminate() == 0
