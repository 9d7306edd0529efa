"""Commands about messages, on a whole stack."""

import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ternmq import Message, MessageView
from ternmq.blocking import Producer, SimpleConsumer
from ternmq.testing import Stack
from tests.support.command_line import CommandLine, printed_records
from tests.system.test_consumption_commands import give_up, received, send

# --- some messages


@pytest.fixture
def topic(stack: Stack) -> str:
    return stack.create_topic(stack.fresh_name(), queues=4)


def bodies(command: CommandLine, *arguments: str) -> list[str]:
    """Of the messages that a command prints."""
    return sorted(each["body"] for each in command.records(*arguments))


def test_what_is_sent_is_received_once(command: CommandLine, topic: str) -> None:
    sent = command("send", topic, "hello", "--tag", "greeting", "--key", "k1", "--key", "k2", "--property", "a=b=c")
    record = command.record("receive", topic, "--group", "once", "--max", "1")
    assert record["body"] == "hello"
    assert (record["tag"], record["keys"], record["properties"]) == ("greeting", ["k1", "k2"], {"a": "b=c"})
    assert record["message_id"] in sent.stdout
    assert command("receive", topic, "--group", "once", "--wait", "300ms").stdout == ""
    assert command.record("group", "describe", "once")["progress"]


def test_a_message_that_is_not_acknowledged_stays(command: CommandLine, topic: str) -> None:
    command("send", topic, "stay")
    assert bodies(command, "receive", topic, "--group", "peek", "--no-ack", "--max", "1") == ["stay"]
    [progress] = [each for each in command.record("group", "describe", "peek")["progress"] if each["end_offset"]]
    assert (progress["topic"], progress["in_flight"], progress["lag"]) == (topic, 1, 1)


def test_what_a_purge_takes_unread_is_said(command: CommandLine, topic: str) -> None:
    name = f"{topic}-of-one-queue"
    command("topic", "create", name, "--queues", "1")
    for body in ("read", "lost", "lost"):
        command("send", name, body)
    assert bodies(command, "receive", name, "--group", "late", "--max", "1") == ["read"]
    command("topic", "purge", name, "--yes")
    record = command.record("group", "describe", "late")
    assert (record["lag"], record["lost"]) == (0, 2)
    assert [each["lost"] for each in record["progress"] if each["topic"] == name] == [2]
    said = command("group", "describe", "late")
    assert "2 messages lost: retention or a purge removed them before the group had read them" in said.output


def test_tags_filter(command: CommandLine, topic: str) -> None:
    for tag in ("red", "green", "blue"):
        command("send", topic, f"a {tag} one", "--tag", tag)
    got = bodies(command, "receive", topic, "--group", "colours", "--filter", "red || blue", "--max", "2")
    assert got == ["a blue one", "a red one"]


def test_tail_filters_and_stops_after_max(command: CommandLine, topic: str) -> None:
    for number in range(6):
        command("send", topic, str(number), "--tag", "even" if number % 2 == 0 else "odd")
    assert bodies(command, "tail", topic, "--from-beginning", "--filter", "odd", "--max", "3") == ["1", "3", "5"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("send", "plain", ""), "MESSAGE_BODY_EMPTY"),
        (("send", "plain", "x", "--message-group", "g"), "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
    ],
)
def test_a_message_that_can_not_be_is_refused_by_name(
    stack: Stack, command: CommandLine, arguments: tuple[str, ...], code: str
) -> None:
    stack.create_topic("plain")
    assert command.call(*arguments).stderr.startswith(f"ternmq: {code}: ")


def test_without_auto_create_an_unknown_topic_is_refused() -> None:
    with Stack(auto_create=False) as strict:
        done = CommandLine(strict.endpoint).call("send", "nobody-made-this", "x")
    assert done.exit_code == 1
    assert done.stderr.startswith("ternmq: TOPIC_NOT_FOUND: ")


def test_a_server_becomes_what_a_file_declares_and_an_export_of_it_says_so() -> None:
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
    with Stack() as stack:
        command = CommandLine(stack.endpoint)
        command("topic", "create", "declared", "--type", "fifo", "--queues", "2")
        command("send", "made-by-use", "x")
        command("receive", "made-by-use", "--group", "made-by-use-too", "--max", "1")
        applied = command.records("apply", "-f", "-", stdin=declared)
        assert [record["outcome"] for record in applied] == ["updated", "created", "updated", "created"]
        assert command("apply", "-f", "-", "--dry-run", stdin=declared).stdout == "nothing to do\n"
        for exported in (command("export"), command("export", "--json")):
            assert command("apply", "-f", "-", "--dry-run", stdin=exported.stdout).stdout == "nothing to do\n"
        topic = command.record("topic", "describe", "declared")
        assert (topic["type"], topic["queues"], topic["permission"]) == ("fifo", 4, "read")
        fewer = json.dumps({"topics": [{"name": "declared", "queues": 3}, {"name": "never-made"}]})
        refused = command.call("apply", "-f", "-", stdin=fewer)
        assert (refused.exit_code, "so nothing was changed" in refused.stderr) == (1, True)
        assert command.call("topic", "describe", "never-made").exit_code == 1


# --- purge


def test_dead_letters_that_are_purged_are_gone_and_others_come(stack: Stack, command: CommandLine) -> None:
    command("group", "create", "grave", "--max-attempts", "1")
    send(stack.endpoint, "mortal", 3)
    give_up(stack.endpoint, "mortal", "grave", 1)
    assert len(command.records("dlq", "list", "grave")) == 3
    command("dlq", "purge", "grave", "--before", "2h", "--yes")
    assert len(command.records("dlq", "list", "grave")) == 3
    assert "removed 3 dead letters of group grave" in command("dlq", "purge", "grave", "--yes").stdout
    assert command.records("dlq", "list", "grave") == []
    send(stack.endpoint, "mortal", 1)
    give_up(stack.endpoint, "mortal", "grave", 1)
    assert len(command.records("dlq", "list", "grave")) == 1


# --- export and import


def test_what_is_exported_is_imported_as_it_was(stack: Stack, command: CommandLine, tmp_path: Path) -> None:
    command("topic", "create", "ledger", "--type", "fifo")
    sent = [Message("ledger", b"a%d\xff" % each, message_group=f"g{each % 3}", keys=("k",)) for each in range(250)]
    with Producer(stack.endpoint, topics=["ledger"]) as producer:
        producer.send_many(sent)
        producer.send(Message("ledger", "é\n".encode(), message_group="g", tag="t", properties={"p": "q"}))
    packed = tmp_path / "ledger.jsonl.gz"
    told = command("topic", "export", "ledger", str(packed))
    assert "exported 251 messages of ledger" in told.stderr
    assert packed.stat().st_mode & 0o077 == 0
    lines = gzip.decompress(packed.read_bytes()).splitlines()
    assert [json.loads(line) for line in lines] == printed_records(command("topic", "export", "ledger"))
    command("topic", "create", "copy", "--type", "fifo")
    assert imported(command, "copy", packed) == {"topic": "copy", "sent": 251, "left_out": 0}
    copies = printed_records(command("topic", "export", "copy", "-"))
    assert sorted(map(content, copies)) == sorted(content(json.loads(line)) for line in lines)
    for group in ("g0", "g1", "g2"):
        order = [each.get("body_base64") for each in copies if each["message_group"] == group]
        assert order == [each.get("body_base64") for each in map(json.loads, lines) if each["message_group"] == group]


def content(record: dict[str, Any]) -> str:
    names = ("tag", "keys", "message_group", "priority", "properties", "body", "body_base64")
    return json.dumps([record.get(name) for name in names])


def test_an_export_is_of_the_queue_and_the_times_that_are_asked_for(stack: Stack, command: CommandLine) -> None:
    command("topic", "create", "parts", "--queues", "2")
    send(stack.endpoint, "parts", 6)
    whole = printed_records(command("topic", "export", "parts"))
    by_queue = [printed_records(command("topic", "export", "parts", "--queue", number)) for number in "01"]
    assert sorted(map(str, whole)) == sorted(map(str, [*by_queue[0], *by_queue[1]]))
    assert printed_records(command("topic", "export", "parts", "--until", "1h")) == []
    assert printed_records(command("topic", "export", "parts", "--since", "1h")) == whole


def imported(command: CommandLine, topic: str, file: Path, *options: str) -> dict[str, Any]:
    answer: dict[str, Any] = command.record("topic", "import", topic, str(file), *options)
    return answer


def test_an_import_that_is_run_again_sends_what_is_not_stored(command: CommandLine, tmp_path: Path) -> None:
    lines = [json.dumps({"body": str(number)}) for number in range(450)]
    whole, part = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    whole.write_text("\n".join(lines))
    part.write_text("\n".join(lines[:333]))  # as an import that ended in the middle of a batch
    assert imported(command, "again", part) == {"topic": "again", "sent": 333, "left_out": 0}
    assert imported(command, "again", whole) == {"topic": "again", "sent": 117, "left_out": 333}
    assert imported(command, "again", whole) == {"topic": "again", "sent": 0, "left_out": 450}
    bodies = [each["body"] for each in printed_records(command("topic", "export", "again"))]
    assert sorted(bodies, key=int) == [str(number) for number in range(450)]
    assert imported(command, "again", part, "--again") == {"topic": "again", "sent": 333, "left_out": 0}


def test_an_import_ends_at_a_line_that_is_no_message_and_goes_on_when_it_is_mended(
    command: CommandLine, tmp_path: Path
) -> None:
    lines = [json.dumps({"body": str(number)}) for number in range(250)]
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join([*lines[:150], "nonsense", *lines[151:]]))
    for _ in range(2):
        refused = command.call("topic", "import", "mended", str(file))
        assert refused.exit_code == 2
        assert "line 151: it is no JSON" in refused.stderr
        assert len(printed_records(command("topic", "export", "mended"))) == 150
    file.write_text("\n".join(lines))
    assert imported(command, "mended", file) == {"topic": "mended", "sent": 100, "left_out": 150}


def test_a_gzip_file_that_was_cut_off_is_said_to_be_so(command: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "cut.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"body": "a"}\n' * 10_000)[:-40])
    refused = command.call("topic", "import", "cut", str(file))
    assert (refused.exit_code, "no complete gzip file" in refused.stderr) == (2, True)


@pytest.mark.parametrize(("type_name", "options"), [("delay", ("--delay", "50ms")), ("priority", ("--priority", "3"))])
def test_dead_letters_of_special_topics_are_sent_again_from_their_export(
    stack: Stack, command: CommandLine, tmp_path: Path, type_name: str, options: tuple[str, str]
) -> None:
    topic, group = f"special-{type_name}", f"grave-{type_name}"
    command("topic", "create", topic, "--type", type_name, "--queues", "4")
    command("group", "create", group, "--max-attempts", "1")
    command("send", topic, "body", "--tag", "t", "--key", "k", "--property", "a=b", *options)
    with SimpleConsumer(stack.endpoint, group, {topic: "*"}, await_duration=timedelta(seconds=10)) as consumer:
        (view,) = consumer.receive(max_messages=1, invisible_duration=timedelta(minutes=1))
        consumer.change_invisible_duration(view, timedelta(0))
    letters = tmp_path / "letters.jsonl"
    command("dlq", "export", group, str(letters))
    (letter,) = [json.loads(line) for line in letters.read_text().splitlines()]
    assert letter["priority"] == (3 if type_name == "priority" else None)
    assert (letter["delivery"] is not None) == (type_name == "delay")
    command("send", topic, "--jsonl", str(letters))
    assert imported(command, topic, letters)["sent"] == 1
    with SimpleConsumer(stack.endpoint, f"{group}-new", {topic: "*"}, await_duration=timedelta(seconds=10)) as consumer:
        views: list[MessageView] = []
        while len(views) < 3:
            views += consumer.receive(max_messages=3, invisible_duration=timedelta(minutes=1))
    assert {(view.body, view.tag, view.keys, view.priority) for view in views} == {
        (b"body", "t", ("k",), letter["priority"])
    }
    assert {str(view.properties) for view in views} == {str({"a": "b"})}


# --- templates


def test_tail_and_receive_print_by_a_template(stack: Stack, command: CommandLine) -> None:
    send(stack.endpoint, "lines", 1)
    line = "{properties.colour} {tag} {keys} {body} {priority}."
    tailed = command("tail", "lines", "--from-beginning", "--max", "1", "--format", line).stdout
    got = command("receive", "lines", "--group", "reader", "--max", "1", "--format", line).stdout
    assert (tailed, got) == ("red t key-0 0 .\n",) * 2


# --- lite topics


def test_messages_of_lite_topics_are_sent_and_received(command: CommandLine) -> None:
    command("topic", "create", "chats", "--type", "lite")
    command("group", "create", "agents", "--lite-bind", "chats", "--max-attempts", "1")
    command("group", "create", "archive", "--lite-bind", "chats", "--lite-wildcard")
    for name in ("a", "b", "c"):
        command("send", "chats", f"hello {name}", "--lite-topic", name)
    got = command("receive", "chats", "--group", "agents", "--lite-topic", "a", "--lite-topic", "b", "--max", "2")
    assert sorted(line.split("  ", 2)[2] for line in got.stdout.splitlines()) == ["lite=a  hello a", "lite=b  hello b"]
    everything = command("receive", "chats", "--group", "archive", "--lite-topic", "*", "--max", "3", "--json")
    assert sorted(each["lite_topic"] for each in printed_records(everything)) == ["a", "b", "c"]
    command("send", "chats", "--jsonl", "-", stdin=everything.stdout)
    again = command("receive", "chats", "--group", "agents", "--lite-topic", "b", "--max", "1", "--format", "{body}")
    assert again.stdout == "hello b\n"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), "ILLEGAL_CONSUMER_GROUP"),
        (("--lite-topic", "no spaces"), "ILLEGAL_LITE_TOPIC"),
        (("--lite-topic", "a", "--filter", "paid"), "USAGE"),
    ],
)
def test_a_receive_of_a_lite_group_that_can_not_be_is_refused_in_a_line(
    command: CommandLine, options: tuple[str, ...], code: str
) -> None:
    words = ("receive", "refused-chats", "--group", "refused-agents", *options, "--json")
    command("topic", "create", "refused-chats", "--type", "lite")
    command("group", "create", "refused-agents", "--lite-bind", "refused-chats")
    result = command.call(*words)
    assert result.exit_code != 0
    assert json.loads(result.stderr.splitlines()[-1])["error"]["code"] == code


# --- bench


def names_of(command: CommandLine) -> list[str]:
    lists = [command(noun, "list", "--format", "{name}").stdout.split() for noun in ("topic", "group")]
    return [name for each in lists for name in each if "bench" in name]


def test_a_bench_tells_rates_and_latencies_and_leaves_nothing(command: CommandLine) -> None:
    options = ("--messages", "500", "--size", "100", "--in-flight", "8")
    figures = command.record("bench", *options)
    assert (figures["messages"], figures["size"], figures["in_flight"]) == (500, 100, 8)
    assert min(figures["sent_per_s"], figures["received_per_s"]) > 0
    assert 0 < figures["send_p50_ms"] <= figures["send_p99_ms"]
    assert 0 < figures["delivery_p50_ms"] <= figures["delivery_p99_ms"]
    # Not known where a process had the server's socket for a moment, as one that another test is about to start.
    assert figures["server_cpu_s"] is None or figures["server_cpu_s"] >= 0
    assert names_of(command) == []


# --- filters


def test_messages_are_found_by_tag_and_by_condition(stack: Stack, command: CommandLine) -> None:
    regions = ["eu", "us"] * 40
    tags = ["paid", "sent", "lost", "kept"] * 20
    with Producer(stack.endpoint, topics=["sifted"]) as producer:
        producer.send_many(
            [
                Message("sifted", b"%d" % number, tag=tag, keys=("k",), properties={"region": region})
                for number, (tag, region) in enumerate(zip(tags, regions, strict=True))
            ]
        )

    def found(*options: str) -> list[int]:
        told = command("message", "find", "sifted", *options, "--format", "{body}").stdout
        return sorted(map(int, told.split()))

    paid_or_sent = [number for number, tag in enumerate(tags) if tag in ("paid", "sent")]
    assert found("--filter", "paid || sent") == paid_or_sent
    assert found("--filter", "paid || sent", "--key", "k") == paid_or_sent
    assert found("--sql", "region = 'eu'") == list(range(0, 80, 2))
    assert found("--filter", "nobody") == []
    options = ("--from-beginning", "--sql", "region = 'us'", "--max", "40", "--format", "{body}")
    tailed = command("tail", "sifted", *options)
    assert sorted(map(int, tailed.stdout.split())) == list(range(1, 80, 2))


@pytest.mark.parametrize(
    "options", [("--sql", "region ="), ("--sql", ""), ("--filter", " "), ("--filter", "a | b")], ids=" ".join
)
def test_a_filter_that_is_none_is_refused_in_a_line(
    stack: Stack, command: CommandLine, options: tuple[str, str]
) -> None:
    send(stack.endpoint, "unsifted", 1)
    arguments = ["message", "find", "unsifted", *options]
    refused = command.call(*arguments)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("ternmq: ILLEGAL_FILTER_EXPRESSION")
    assert len(refused.stderr.splitlines()) == 1


# --- what waits, and what there was


def test_what_waits_is_listed_and_recalled_by_its_handle(command: CommandLine) -> None:
    for hours in (3, 1, 2):
        command("send", "reminders", f"in {hours} h", "--delay", f"{hours}h", "--tag", str(hours))
    listed = command.records("timer", "list", "--topic", "reminders")
    assert [record["tag"] for record in listed] == ["1", "2", "3"]
    assert "1h" not in command("timer", "list").output
    command("recall", "reminders", listed[0]["recall_handle"])
    some = command("timer", "list", "--topic", "reminders", "--max", "1")
    assert "the first 1; --max shows more" in some.stderr
    assert listed[1]["message_id"] in some.stdout
    assert "no timed messages wait in topic orders-of-nobody" in (
        command.call("topic", "create", "orders-of-nobody").output
        + command("timer", "list", "--topic", "orders-of-nobody").stderr
    )


def test_the_groups_of_a_message_are_told(stack: Stack, command: CommandLine) -> None:
    command("topic", "create", "told", "--queues", "1")
    command("group", "create", "told-to", "--max-attempts", "1")
    send(stack.endpoint, "told", 2)
    give_up(stack.endpoint, "told", "told-to", 1)
    dead, *_ = command.records("message", "groups", "told", "--queue", "0", "--offset", "0")
    assert dead == {"group": "told-to", "state": "dead", "attempts": None, "until": None, "dead_letter": 0}
    message_id = command.records("message", "find", "told")[1]["message_id"]
    assert "told-to  dead" in command("message", "groups", "told", message_id).stdout


def test_a_topic_tells_what_it_holds(stack: Stack, command: CommandLine) -> None:
    command("topic", "create", "holding", "--queues", "1")
    send(stack.endpoint, "holding", 3)
    assert len(received(stack.endpoint, "holding", "holders")) == 3
    told = command.record("topic", "describe", "holding")
    assert told["groups"] == ["holders"]
    (queue,) = told["message_queues"]
    assert (queue["messages"], queue["bytes"] > 0, queue["oldest"] is not None) == (3, True, True)
    assert "holders" in command("topic", "describe", "holding").stdout


def test_the_last_hours_are_printed(command: CommandLine) -> None:
    assert command.record("history")["step_s"] == 10
    command("topic", "create", "remembered")
    assert command.record("history", "--topic", "remembered")["series"] == []
    assert "nothing was above 0 yet" in command("history", "--topic", "remembered").output
    both = command.call("history", "--topic", "a", "--group", "b")
    assert both.exit_code == 2
