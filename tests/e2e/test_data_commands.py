"""Commands about many messages at once, against a real `ternmq up`."""

import asyncio
import gzip
import json
import signal
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ternmq import Message, MessageView
from ternmq.blocking import Producer, SimpleConsumer
from ternmq_command.main import cli
from tests.e2e.test_command import COMMAND, environment
from tests.e2e.test_consumption_commands import give_up, received, send
from tests.support.stack import Stack
from tests.support.until import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


def call(stack: Stack, *arguments: str, stdin: str | None = None) -> Result:
    """Run a command that must succeed."""
    result = CliRunner().invoke(cli, arguments, input=stdin, env={"TERNMQ_ENDPOINT": stack.grpc})
    assert result.exit_code == 0, f"{arguments}\n{result.output}{result.stderr}"
    return result


def records(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


# --- purge


def test_a_topic_that_is_purged_has_nothing_for_anybody_also_after_a_restart(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        send(stack, "orders", 20)
        assert len(received(stack, "orders", "began", ack=False)) == 20
        assert json.loads(call(stack, "topic", "purge", "orders", "--dry-run", "--json").stdout)["messages"] == 20
        assert json.loads(call(stack, "topic", "purge", "orders", "--yes", "--json").stdout)["messages"] == 20
        stack.kill9()
        stack.start()
        assert records(call(stack, "message", "find", "orders", "--json")) == []
        send(stack, "orders", 3)
        assert received(stack, "orders", "new") == received(stack, "orders", "began") == [b"0", b"1", b"2"]
        total = json.loads(call(stack, "group", "offset", "show", "began", "--topic", "orders", "--json").stdout)[
            "total"
        ]
        assert total["lag"] == total["in_flight"]  # nothing but what it was given before and has not settled


def test_dead_letters_that_are_purged_are_gone_and_others_come(stack: Stack) -> None:
    call(stack, "group", "create", "grave", "--max-attempts", "1")
    send(stack, "mortal", 3)
    give_up(stack, "mortal", "grave", 1)
    assert len(records(call(stack, "dlq", "list", "grave", "--json"))) == 3
    call(stack, "dlq", "purge", "grave", "--before", "2h", "--yes")
    assert len(records(call(stack, "dlq", "list", "grave", "--json"))) == 3
    assert "removed 3 dead letters of group grave" in call(stack, "dlq", "purge", "grave", "--yes").stdout
    assert records(call(stack, "dlq", "list", "grave", "--json")) == []
    send(stack, "mortal", 1)
    give_up(stack, "mortal", "grave", 1)
    assert len(records(call(stack, "dlq", "list", "grave", "--json"))) == 1


# --- export and import


def test_what_is_exported_is_imported_as_it_was(stack: Stack, tmp_path: Path) -> None:
    call(stack, "topic", "create", "ledger", "--type", "fifo")
    sent = [Message("ledger", b"a%d\xff" % each, message_group=f"g{each % 3}", keys=("k",)) for each in range(250)]
    with Producer(stack.grpc, topics=["ledger"]) as producer:
        producer.send_many(sent)
        producer.send(Message("ledger", "é\n".encode(), message_group="g", tag="t", properties={"p": "q"}))
    packed = tmp_path / "ledger.jsonl.gz"
    told = call(stack, "topic", "export", "ledger", str(packed))
    assert "exported 251 messages of ledger" in told.stderr
    assert packed.stat().st_mode & 0o077 == 0
    lines = gzip.decompress(packed.read_bytes()).splitlines()
    assert [json.loads(line) for line in lines] == records(call(stack, "topic", "export", "ledger"))
    call(stack, "topic", "create", "copy", "--type", "fifo")
    assert imported(stack, "copy", packed) == {"topic": "copy", "sent": 251, "left_out": 0}
    copies = records(call(stack, "topic", "export", "copy", "-"))
    assert sorted(map(content, copies)) == sorted(content(json.loads(line)) for line in lines)
    for group in ("g0", "g1", "g2"):
        order = [each.get("body_base64") for each in copies if each["message_group"] == group]
        assert order == [each.get("body_base64") for each in map(json.loads, lines) if each["message_group"] == group]


def content(record: dict[str, Any]) -> str:
    names = ("tag", "keys", "message_group", "priority", "properties", "body", "body_base64")
    return json.dumps([record.get(name) for name in names])


def test_an_export_is_of_the_queue_and_the_times_that_are_asked_for(stack: Stack) -> None:
    call(stack, "topic", "create", "parts", "--queues", "2")
    send(stack, "parts", 6)
    whole = records(call(stack, "topic", "export", "parts"))
    by_queue = [records(call(stack, "topic", "export", "parts", "--queue", number)) for number in "01"]
    assert sorted(map(str, whole)) == sorted(map(str, [*by_queue[0], *by_queue[1]]))
    assert records(call(stack, "topic", "export", "parts", "--until", "1h")) == []
    assert records(call(stack, "topic", "export", "parts", "--since", "1h")) == whole


def imported(stack: Stack, topic: str, file: Path, *options: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(call(stack, "topic", "import", topic, str(file), "--json", *options).stdout)
    return answer


def test_an_import_that_is_run_again_sends_what_is_not_stored(stack: Stack, tmp_path: Path) -> None:
    lines = [json.dumps({"body": str(number)}) for number in range(450)]
    whole, part = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    whole.write_text("\n".join(lines))
    part.write_text("\n".join(lines[:333]))  # as an import that ended in the middle of a batch
    assert imported(stack, "again", part) == {"topic": "again", "sent": 333, "left_out": 0}
    assert imported(stack, "again", whole) == {"topic": "again", "sent": 117, "left_out": 333}
    assert imported(stack, "again", whole) == {"topic": "again", "sent": 0, "left_out": 450}
    bodies = [each["body"] for each in records(call(stack, "topic", "export", "again"))]
    assert sorted(bodies, key=int) == [str(number) for number in range(450)]
    assert imported(stack, "again", part, "--again") == {"topic": "again", "sent": 333, "left_out": 0}


def test_an_import_ends_at_a_line_that_is_no_message_and_goes_on_when_it_is_mended(
    stack: Stack, tmp_path: Path
) -> None:
    lines = [json.dumps({"body": str(number)}) for number in range(250)]
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join([*lines[:150], "nonsense", *lines[151:]]))
    for _ in range(2):
        refused = CliRunner().invoke(cli, ["topic", "import", "mended", str(file)], env={"TERNMQ_ENDPOINT": stack.grpc})
        assert refused.exit_code == 2
        assert "line 151: it is no JSON" in refused.stderr
        assert len(records(call(stack, "topic", "export", "mended"))) == 150
    file.write_text("\n".join(lines))
    assert imported(stack, "mended", file) == {"topic": "mended", "sent": 100, "left_out": 150}


def test_a_gzip_file_that_was_cut_off_is_said_to_be_so(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "cut.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"body": "a"}\n' * 10_000)[:-40])
    refused = CliRunner().invoke(cli, ["topic", "import", "cut", str(file)], env={"TERNMQ_ENDPOINT": stack.grpc})
    assert (refused.exit_code, "no whole gzip file" in refused.stderr) == (2, True)


@pytest.mark.parametrize(("type_name", "options"), [("delay", ("--delay", "50ms")), ("priority", ("--priority", "3"))])
def test_dead_letters_of_special_topics_are_sent_again_from_their_export(
    stack: Stack, tmp_path: Path, type_name: str, options: tuple[str, str]
) -> None:
    topic, group = f"special-{type_name}", f"grave-{type_name}"
    call(stack, "topic", "create", topic, "--type", type_name, "--queues", "4")
    call(stack, "group", "create", group, "--max-attempts", "1")
    call(stack, "send", topic, "body", "--tag", "t", "--key", "k", "--property", "a=b", *options)
    with SimpleConsumer(stack.grpc, group, {topic: "*"}, await_duration=timedelta(seconds=10)) as consumer:
        (view,) = consumer.receive(max_messages=1, invisible_duration=timedelta(minutes=1))
        consumer.change_invisible_duration(view, timedelta(0))
    letters = tmp_path / "letters.jsonl"
    call(stack, "dlq", "export", group, str(letters))
    (letter,) = [json.loads(line) for line in letters.read_text().splitlines()]
    assert letter["priority"] == (3 if type_name == "priority" else None)
    assert (letter["delivery"] is not None) == (type_name == "delay")
    call(stack, "send", topic, "--jsonl", str(letters))
    assert imported(stack, topic, letters)["sent"] == 1
    with SimpleConsumer(stack.grpc, f"{group}-new", {topic: "*"}, await_duration=timedelta(seconds=10)) as consumer:
        views: list[MessageView] = []
        while len(views) < 3:
            views += consumer.receive(max_messages=3, invisible_duration=timedelta(minutes=1))
    assert {(view.body, view.tag, view.keys, view.priority) for view in views} == {
        (b"body", "t", ("k",), letter["priority"])
    }
    assert {str(view.properties) for view in views} == {str({"a": "b"})}


# --- templates


def test_tail_and_receive_print_by_a_template(stack: Stack) -> None:
    send(stack, "lines", 1)
    line = "{properties.colour} {tag} {keys} {body} {priority}."
    tailed = call(stack, "tail", "lines", "--from-beginning", "--max", "1", "--format", line).stdout
    got = call(stack, "receive", "lines", "--group", "reader", "--max", "1", "--format", line).stdout
    assert (tailed, got) == ("red t key-0 0 .\n",) * 2


# --- lite topics


def test_messages_of_lite_topics_are_sent_and_received(stack: Stack) -> None:
    call(stack, "topic", "create", "chats", "--type", "lite")
    call(stack, "group", "create", "agents", "--lite-bind", "chats", "--max-attempts", "1")
    call(stack, "group", "create", "archive", "--lite-bind", "chats", "--lite-wildcard")
    for name in ("a", "b", "c"):
        call(stack, "send", "chats", f"hello {name}", "--lite-topic", name)
    got = call(stack, "receive", "chats", "--group", "agents", "--lite-topic", "a", "--lite-topic", "b", "--max", "2")
    assert sorted(line.split("  ", 2)[2] for line in got.stdout.splitlines()) == ["lite=a  hello a", "lite=b  hello b"]
    everything = call(stack, "receive", "chats", "--group", "archive", "--lite-topic", "*", "--max", "3", "--json")
    assert sorted(each["lite_topic"] for each in records(everything)) == ["a", "b", "c"]
    call(stack, "send", "chats", "--jsonl", "-", stdin=everything.stdout)
    again = call(
        stack, "receive", "chats", "--group", "agents", "--lite-topic", "b", "--max", "1", "--format", "{body}"
    )
    assert again.stdout == "hello b\n"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), "BAD_REQUEST"),
        (("--lite-topic", "no spaces"), "ILLEGAL_LITE_TOPIC"),
        (("--lite-topic", "a", "--filter", "paid"), "USAGE"),
    ],
)
def test_a_receive_of_a_lite_group_that_can_not_be_is_refused_in_a_line(
    stack: Stack, options: tuple[str, ...], code: str
) -> None:
    words = ("receive", "refused-chats", "--group", "refused-agents", *options, "--json")
    call(stack, "topic", "create", "refused-chats", "--type", "lite")
    call(stack, "group", "create", "refused-agents", "--lite-bind", "refused-chats")
    result = CliRunner().invoke(cli, words, env={"TERNMQ_ENDPOINT": stack.grpc})
    assert result.exit_code != 0
    assert json.loads(result.stderr.splitlines()[-1])["error"]["code"] == code


# --- bench


def names_of(stack: Stack) -> list[str]:
    lists = [call(stack, noun, "list", "--format", "{name}").stdout.split() for noun in ("topic", "group")]
    return [name for each in lists for name in each if "bench" in name]


def test_a_bench_tells_rates_and_latencies_and_leaves_nothing(stack: Stack) -> None:
    options = ("--messages", "500", "--size", "100", "--in-flight", "8")
    figures = json.loads(call(stack, "bench", *options, "--json").stdout)
    assert (figures["messages"], figures["size"], figures["in_flight"]) == (500, 100, 8)
    assert min(figures["sent_per_s"], figures["received_per_s"]) > 0
    assert 0 < figures["send_p50_ms"] <= figures["send_p99_ms"]
    assert 0 < figures["delivery_p50_ms"] <= figures["delivery_p99_ms"]
    assert figures["server_cpu_s"] >= 0
    assert names_of(stack) == []


def test_a_bench_that_is_interrupted_leaves_nothing(stack: Stack) -> None:
    bench = subprocess.Popen([*COMMAND, "bench", "--messages", "1000000"], env=environment(TERNMQ_ENDPOINT=stack.grpc))
    try:
        asyncio.run(until(lambda: len(names_of(stack)) == 2))  # the topic, and the group, which the first receive made
        bench.send_signal(signal.SIGINT)
        assert bench.wait(60) == 130
    finally:
        bench.kill()
        bench.wait()
    assert names_of(stack) == []


# --- filters


def test_messages_are_found_by_tag_and_by_condition(stack: Stack) -> None:
    regions = ["eu", "us"] * 40
    tags = ["paid", "sent", "lost", "kept"] * 20
    with Producer(stack.grpc, topics=["sifted"]) as producer:
        producer.send_many(
            [
                Message("sifted", b"%d" % number, tag=tag, keys=("k",), properties={"region": region})
                for number, (tag, region) in enumerate(zip(tags, regions, strict=True))
            ]
        )

    def found(*options: str) -> list[int]:
        told = call(stack, "message", "find", "sifted", *options, "--format", "{body}").stdout
        return sorted(map(int, told.split()))

    paid_or_sent = [number for number, tag in enumerate(tags) if tag in ("paid", "sent")]
    assert found("--filter", "paid || sent") == paid_or_sent
    assert found("--filter", "paid || sent", "--key", "k") == paid_or_sent
    assert found("--sql", "region = 'eu'") == list(range(0, 80, 2))
    assert found("--filter", "nobody") == []
    options = ("--from-beginning", "--sql", "region = 'us'", "--max", "40", "--format", "{body}")
    tailed = call(stack, "tail", "sifted", *options)
    assert sorted(map(int, tailed.stdout.split())) == list(range(1, 80, 2))


@pytest.mark.parametrize("options", [("--sql", "region ="), ("--sql", ""), ("--filter", " ")], ids=" ".join)
def test_a_filter_that_is_none_is_refused_in_a_line(stack: Stack, options: tuple[str, str]) -> None:
    send(stack, "unsifted", 1)
    arguments = ["message", "find", "unsifted", *options]
    refused = CliRunner().invoke(cli, arguments, env={"TERNMQ_ENDPOINT": stack.grpc})
    assert refused.exit_code == 1
    assert refused.stderr.startswith("ternmq: ILLEGAL_FILTER_EXPRESSION")
    assert len(refused.stderr.splitlines()) == 1


# --- what waits, and what there was


def test_what_waits_is_listed_and_recalled_by_its_handle(stack: Stack) -> None:
    for hours in (3, 1, 2):
        call(stack, "send", "reminders", f"in {hours} h", "--delay", f"{hours}h", "--tag", str(hours))
    listed = records(call(stack, "timer", "list", "--topic", "reminders", "--json"))
    assert [record["tag"] for record in listed] == ["1", "2", "3"]
    assert "1h" not in call(stack, "timer", "list").output
    call(stack, "recall", "reminders", listed[0]["recall_handle"])
    some = call(stack, "timer", "list", "--topic", "reminders", "--max", "1")
    assert "the first 1; --max shows more" in some.stderr
    assert listed[1]["message_id"] in some.stdout
    assert "no timed messages wait in topic orders-of-nobody" in (
        CliRunner().invoke(cli, ["topic", "create", "orders-of-nobody"], env={"TERNMQ_ENDPOINT": stack.grpc}).output
        + call(stack, "timer", "list", "--topic", "orders-of-nobody").stderr
    )


def test_the_groups_of_a_message_are_told(stack: Stack) -> None:
    call(stack, "topic", "create", "told", "--queues", "1")
    call(stack, "group", "create", "told-to", "--max-attempts", "1")
    send(stack, "told", 2)
    give_up(stack, "told", "told-to", 1)
    dead, *_ = json.loads(call(stack, "message", "groups", "told", "--queue", "0", "--offset", "0", "--json").stdout)
    assert dead == {"group": "told-to", "state": "dead", "attempts": None, "until": None, "dead_letter": 0}
    message_id = records(call(stack, "message", "find", "told", "--json"))[1]["message_id"]
    assert "told-to  dead" in call(stack, "message", "groups", "told", message_id).stdout


def test_a_topic_tells_what_it_holds(stack: Stack) -> None:
    call(stack, "topic", "create", "holding", "--queues", "1")
    send(stack, "holding", 3)
    assert len(received(stack, "holding", "holders")) == 3
    told = json.loads(call(stack, "topic", "describe", "holding", "--json").stdout)
    assert told["groups"] == ["holders"]
    (queue,) = told["message_queues"]
    assert (queue["messages"], queue["bytes"] > 0, queue["oldest"] is not None) == (3, True, True)
    assert "holders" in call(stack, "topic", "describe", "holding").stdout


def test_the_last_hours_are_printed(stack: Stack) -> None:
    assert json.loads(call(stack, "history", "--json").stdout)["step_s"] == 10
    call(stack, "topic", "create", "remembered")
    assert json.loads(call(stack, "history", "--topic", "remembered", "--json").stdout)["series"] == []
    assert "nothing was above 0 yet" in call(stack, "history", "--topic", "remembered").output
    both = CliRunner().invoke(cli, ["history", "--topic", "a", "--group", "b"], env={"TERNMQ_ENDPOINT": stack.grpc})
    assert both.exit_code == 2
