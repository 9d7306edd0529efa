"""`ternmq send` for later, and `ternmq recall`."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from ternmq_command.calls import server_time
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.client.scripted_server import TOPIC, ScriptedServer
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call, Send

HOUR = timedelta(hours=1)


def sent(scripted: ScriptedServer) -> list[pb.Message]:
    return [message for request in scripted.requests["SendMessage"] for message in request.messages]


def due(message: pb.Message) -> datetime:
    assert message.system_properties.message_type == pb.DELAY
    moment: datetime = message.system_properties.delivery_timestamp.ToDatetime(tzinfo=UTC)
    return moment


async def test_a_message_is_sent_for_later_with_the_handle_that_takes_it_back(
    send: Send, scripted: ScriptedServer
) -> None:
    began = datetime.now(UTC)
    result = await send("call back", "--delay", "1h30m")
    [message] = sent(scripted)
    assert timedelta(0) <= due(message) - began - 1.5 * HOUR < timedelta(minutes=1)
    assert result.stdout.splitlines() == [
        f"sent {message.system_properties.message_id} to {TOPIC}, to be delivered in 90m",
        f"recall it with: ternmq recall {TOPIC} handle",
    ]


async def test_a_message_is_sent_for_a_time(send: Send, scripted: ScriptedServer) -> None:
    arguments = ("happy new year", "--at", "2099-12-31T23:59:59.250-01:00")
    assert "to be delivered at 2100-01-01T00:59:59.250Z\n" in (await send(*arguments)).stdout
    result = await send(*arguments, "--json")
    first, second = sent(scripted)
    assert due(first) == due(second) == datetime(2100, 1, 1, 0, 59, 59, 250_000, tzinfo=UTC)
    assert json.loads(result.stdout) == {
        "topic": TOPIC,
        "message_id": second.system_properties.message_id,
        "offset": 7,
        "recall_handle": "handle",
    }


async def test_a_message_is_sent_with_a_delay_level(send: Send, scripted: ScriptedServer) -> None:
    result = await send("x", "--delay-level", "3", "--property", "a=b")
    [message] = sent(scripted)
    assert dict(message.user_properties) == {"a": "b", "DELAY": "3"}
    assert not message.system_properties.HasField("delivery_timestamp")
    assert re.fullmatch(
        rf"sent \S+ to {TOPIC}, to be delivered later\nrecall it with: ternmq recall {TOPIC} handle\n",
        result.stdout,
    )


async def test_lines_are_sent_for_later(send: Send, scripted: ScriptedServer) -> None:
    result = await send("--file", "-", "--delay", "1h", "--json", stdin="one\ntwo\n")
    assert [json.loads(line)["recall_handle"] for line in result.stdout.splitlines()] == ["handle"] * 2
    assert all(due(message) > datetime.now(UTC) for message in sent(scripted))


async def test_a_line_is_sent_as_it_is_and_help_promises_no_more(
    send: Send, scripted: ScriptedServer, call: Call
) -> None:
    line = '{"body": "x", "tag": "paid"}'
    assert (await send("--file", "-", stdin=f"{line}\n")).exit_code == 0
    [message] = sent(scripted)
    assert (message.body.decode(), message.system_properties.tag) == (line, "")
    help_text = " ".join(call("send", "--help").stdout.split())
    assert "Send each line of FILE (- is standard input) as it is, as the body of a message" in help_text
    assert "orders.jsonl" not in help_text


async def test_a_message_for_now_has_no_handle(send: Send, scripted: ScriptedServer) -> None:
    result = await send("now")
    [message] = sent(scripted)
    assert message.system_properties.message_type == pb.NORMAL
    assert result.stdout == f"sent {message.system_properties.message_id} to {TOPIC}, offset 7\n"


async def test_a_delay_counts_from_the_time_that_tests_moved_the_server_to(
    send: Send, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_time, "clock_advance", lambda _: 48 * HOUR)
    began = datetime.now(UTC)
    await send("call back", "--delay", "2h")
    await send("call back", "--at", began.isoformat())
    first, second = sent(scripted)
    assert timedelta(0) <= due(first) - began - 50 * HOUR < timedelta(minutes=1)
    assert abs(due(second) - began) < timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "flags",
    [
        ("--delay", "2h", "--at", "2026-08-01"),
        ("--delay", "0s", "--delay-level", "1"),
        ("--at", "2026-08-01", "--delay-level", "1"),
    ],
)
def test_ways_to_say_when_exclude_each_other(call: Call, flags: tuple[str, ...]) -> None:
    result = call("send", TOPIC, "x", *flags)
    assert (result.exit_code, result.stderr) == (2, "ternmq: give one of --delay, --at and --delay-level\n")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--at", "2h"), "a time like"),
        (("--at", "1960-01-01"), "a time after 1970"),
        (("--at", "noon"), "a time like"),
        (("--delay-level", "0"), "0 is not in the range"),
        (("--delay", "999999999999d"), "at most 36500d is allowed"),
    ],
)
def test_times_that_can_not_be_are_wrong_usage(call: Call, flags: tuple[str, ...], problem: str) -> None:
    result = call("send", TOPIC, "x", *flags)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert problem in result.stderr


async def test_what_is_both_ordered_and_timed_is_refused(send: Send, scripted: ScriptedServer) -> None:
    result = await send("x", "--delay", "2h", "--message-group", "g")
    assert result.exit_code == 1
    assert result.stderr.startswith("ternmq: MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: ")
    assert not sent(scripted)


async def test_a_message_has_a_message_group(send: Send, scripted: ScriptedServer) -> None:
    assert (await send("x", "--message-group", "customer-7")).exit_code == 0
    [message] = sent(scripted)
    assert message.system_properties.message_group == "customer-7"


async def test_a_message_has_a_lite_topic(send: Send, scripted: ScriptedServer) -> None:
    assert (await send("x", "--lite-topic", "chat-17")).exit_code == 0
    assert (await send("--jsonl", "-", stdin='{"body": "y", "lite_topic": "chat-18"}\n')).exit_code == 0
    assert [(one.system_properties.lite_topic, one.system_properties.message_type) for one in sent(scripted)] == [
        ("chat-17", pb.LITE),
        ("chat-18", pb.LITE),
    ]
    refused = await send("--jsonl", "-", "--lite-topic", "a", stdin="")
    assert (refused.exit_code, "leave the options out" in refused.stderr) == (2, True)


@pytest.mark.parametrize("option", [("--group", "g"), ("--group=",)])
def test_the_old_name_of_the_message_group_tells_the_new_one(call: Call, option: tuple[str, ...]) -> None:
    result = call("send", TOPIC, "x", *option)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "--group is called --message-group now" in result.stderr
    assert "--group " not in call("send", "--help").stdout.replace("--message-group", "")


def test_a_message_is_recalled(call_server: Call, server: AdminServer) -> None:
    people = call_server("recall", TOPIC, "handle-1")
    assert (people.exit_code, people.stdout) == (0, f"recalled id-of-handle-1 of {TOPIC}\n")
    assert json.loads(call_server("recall", TOPIC, "handle-2", "--json").stdout) == {
        "topic": TOPIC,
        "message_id": "id-of-handle-2",
    }
    assert server.memory.recalled == [(TOPIC, "handle-1"), (TOPIC, "handle-2")]


def test_a_message_whose_time_has_come_can_not_be_recalled(call_server: Call, server: AdminServer) -> None:
    server.memory.before = lambda method, _: pb.Status(code=pb.BAD_REQUEST, message=f"{method}: it was delivered")
    result = call_server("recall", TOPIC, "handle")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "ternmq: BAD_REQUEST: RecallMessage: it was delivered\n"
