"""`ternmq send --jsonl`: what `tail --json` and `dlq export` write is sent again, and a bad line ends it."""

import asyncio
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq.connections.endpoints import Endpoints
from ternmq.messages.message import Message
from ternmq.messages.message_view import MessageView
from ternmq_command.calls.library import message_record
from ternmq_command.message.message_lines import (
    BATCH_MESSAGES,
    BadLine,
    LineContent,
    message_batches,
    numbered_pages,
    parse_line,
)
from ternmq_command.terminal.output import format_json
from ternmq_common.dead_letters import DEAD_LETTER_PROPERTIES
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.scripted_server import OK, TOPIC, ScriptedServer
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call, Send
from tests.unit.command.messaging_server import dead_letter, message

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
CONTENTS = st.builds(
    LineContent,
    body=st.binary(min_size=1) | TEXT.map(str.encode),
    tag=st.none() | NAME,
    keys=st.lists(NAME).map(tuple),
    # What a dead letter says of itself is not of the message.
    properties=st.dictionaries(NAME.filter(lambda name: name not in DEAD_LETTER_PROPERTIES), TEXT),
    message_group=st.none() | NAME,
    lite_topic=st.none() | NAME,
)
NOWHERE = Endpoints(scheme=pb.ADDRESS_SCHEME_UNSPECIFIED, addresses=())


def line_of(content: LineContent) -> str:
    """As `tail --json` writes a message with that content."""
    wire = message(
        content.body,
        message_id="id",
        keys=content.keys,
        tag=content.tag,
        group=content.message_group,
        lite_topic=content.lite_topic,
        properties=content.properties,
    )
    return format_json(message_record(MessageView(wire, broker="b", endpoints=NOWHERE)))


@given(CONTENTS)
def test_a_line_that_is_written_is_read_as_what_it_was(content: LineContent) -> None:
    line = line_of(content)
    assert "\n" not in line
    assert parse_line(line.encode()) == content


@given(st.lists(CONTENTS, max_size=5), st.integers(1, 50))
def test_lines_are_read_wherever_a_pipe_cuts_them(contents: list[LineContent], size: int) -> None:
    class Pipe(io.BytesIO):
        def read1(self, _: int | None = -1, /) -> bytes:
            return super().read1(size)

    lines = [line_of(content).encode() for content in contents]
    pages = list(numbered_pages(Pipe(b"\n".join(lines))))
    assert [numbered for page in pages for numbered in page] == list(enumerate(lines, 1))


def bodies_only(content: LineContent) -> Message:
    return Message("orders", content.body)


def test_a_message_is_there_as_soon_as_its_line_is() -> None:
    class Pipe:
        def __init__(self) -> None:
            self.parts = [b'{"body": "a"}\n{"bo', b'dy": "b"}\n', b""]

        def read1(self, _: int, /) -> bytes:
            return self.parts.pop(0)

    pipe = Pipe()
    batches = message_batches(pipe, bodies_only)
    assert [one.body for one in next(batches)] == [b"a"]
    assert len(pipe.parts) == 2
    assert [[one.body for one in batch] for batch in batches] == [[b"b"]]


def test_batches_have_limits() -> None:
    body = "x" * 300
    source = io.BytesIO(f'{{"body": "{body}"}}\n'.encode() * 250)
    batches = list(message_batches(source, bodies_only))
    assert sum(map(len, batches)) == 250
    assert max(map(len, batches)) == BATCH_MESSAGES


BAD_LINES = [
    (b"nonsense", "it is no JSON: Expecting value at character 1"),
    (b"[1]", "it is no JSON object"),
    (b'"text"', "it is no JSON object"),
    (b"\xff", "it is not UTF-8"),
    (b"[" * 100_000, "it is nested too deeply"),
    (b"{}", "one of body and body_base64 is needed"),
    (b'{"body": "a", "body_base64": "YQ=="}', "one of body and body_base64 is needed"),
    (b'{"body": null}', "body must be text"),
    (b'{"body": ["a"]}', "body must be text"),
    (b'{"body_base64": "Y"}', "body_base64 is no base64"),
    (b'{"body_base64": "Y Q = ="}', "body_base64 is no base64"),
    (b'{"body": "\\ud800"}', "body contains a lone surrogate"),
    (b'{"body": ""}', "the body of a message must not be empty"),
    (b'{"body": "a", "colour": "red"}', "there is no field 'colour'"),
    (b'{"body": "a", "body": "b"}', "it has 'body' twice"),
    (b'{"body": "a", "properties": {"p": "1", "p": "2"}}', "it has 'p' twice"),
    (b'{"body": "a", "tag": 7}', "tag must be text"),
    (b'{"body": "a", "tag": "a||b"}', "must not be blank nor hold '|'"),
    (b'{"body": "a", "keys": "order-7"}', "keys must be a list of texts"),
    (b'{"body": "a", "keys": ["a", null]}', "each of keys must be text"),
    (b'{"body": "a", "properties": ["p"]}', "properties must be an object of texts"),
    (b'{"body": "a", "properties": {"p": 1}}', "each of properties must be text"),
    (b'{"body": "a", "message_group": false}', "message_group must be text"),
    (b'{"body": "a", "lite_topic": 7}', "lite_topic must be text"),
    (b'{"body": "a", "priority": true}', "priority must be a number from 0 to 2147483647"),
    (b'{"body": "a", "priority": 2147483648}', "priority must be a number from 0 to 2147483647"),
    (b'{"body": "a", "priority": ' + b"9" * 5000 + b"}", "digits"),
]


@pytest.mark.parametrize(("line", "problem"), BAD_LINES, ids=[problem for _, problem in BAD_LINES])
def test_a_line_that_is_no_message_is_named_behind_those_before_it(line: bytes, problem: str) -> None:
    def message_of(content: LineContent) -> Message:
        return Message("orders", content.body, tag=content.tag)

    source = io.BytesIO(b'{"body": "first"}\n\n' + line + b'\n{"body": "last"}\n')
    batches = message_batches(source, message_of)
    assert [one.body for one in next(batches)] == [b"first"]
    with pytest.raises(BadLine, match=f"line 3: .*{re.escape(problem)}.*; sent 1 message before it"):
        next(batches)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_has_a_limit_and_is_not_read_beyond_it(end: bytes) -> None:
    source = io.BytesIO(b'{"body": "' + b"x" * 89 + b'"}' + end + b"y" * 1000)
    with pytest.raises(BadLine, match="line 1: it has more than 100 bytes; nothing was sent"):
        list(message_batches(source, bodies_only, line_bytes_max=100, chunk_bytes=10))
    assert source.tell() <= 120


def sent(scripted: ScriptedServer) -> list[pb.Message]:
    return [one for request in scripted.requests["SendMessage"] for one in request.messages]


def content_of(one: pb.Message) -> tuple[object, ...]:
    system = one.system_properties
    kind = (system.message_group, system.message_type)
    return one.body, system.tag, list(system.keys), dict(one.user_properties), *kind


async def test_what_tail_prints_is_sent_again_as_it_was(
    call_server: Call, server: AdminServer, send: Send, scripted: ScriptedServer
) -> None:
    server.memory.make(TOPIC, 1)
    for one in (
        message("plain"),
        message(
            b"\xff\x00\n", message_id="1", keys=("a", "b b"), tag="paid", properties={"region": "eu", "x": "ü\x7f"}
        ),
        message("second\n", tag="a\u2028b"),
    ):
        server.memory.put(TOPIC, 0, one)
    tailed = await asyncio.to_thread(call_server, "tail", TOPIC, "--from-beginning", "--max", "3", "--json")
    result = await send("--jsonl", "-", stdin=tailed.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.fullmatch(rf"sent 3 messages to {TOPIC} in \d+\.\d\d s\n", result.stdout)
    assert list(map(content_of, sent(scripted))) == list(map(content_of, server.memory.queues[TOPIC][0].messages))


async def test_messages_of_a_group_stay_messages_of_that_group(
    call_server: Call, server: AdminServer, send: Send, scripted: ScriptedServer
) -> None:
    server.memory.make(TOPIC, 1)
    for body in ("1", "2"):
        server.memory.put(TOPIC, 0, message(body, group="customer-7"))
    tailed = await asyncio.to_thread(call_server, "tail", TOPIC, "--from-beginning", "--max", "2", "--json")
    assert (await send("--jsonl", "-", stdin=tailed.stdout)).exit_code == 0
    assert list(map(content_of, sent(scripted))) == list(map(content_of, server.memory.queues[TOPIC][0].messages))


async def test_exported_dead_letters_are_sent_without_what_made_them_dead(
    call_server: Call, server: AdminServer, send: Send, scripted: ScriptedServer, tmp_path: Path
) -> None:
    call_server("group", "create", "billing")
    server.memory.make("%DLQ%billing", 1)
    server.memory.put("%DLQ%billing", 0, dead_letter(1, keys=("k1",)))
    file = tmp_path / "letters.jsonl"
    assert call_server("dlq", "export", "billing", str(file)).exit_code == 0
    result = await send("--jsonl", str(file), "--json")
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [7]
    assert list(map(content_of, sent(scripted))) == [(b"body 1", "paid", ["k1"], {"region": "eu"}, "", pb.NORMAL)]


@pytest.mark.parametrize("flags", [(), ("--json",)])
async def test_a_bad_line_ends_it_and_what_was_sent_is_said(
    send: Send, scripted: ScriptedServer, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text('{"body": "a"}\n{"body": "b"}\n{"bdoy": "c"}\n{"body": "d"}\n')
    result = await send("--jsonl", str(file), *flags)
    problem = f"{file}, line 3: there is no field 'bdoy'; sent 2 messages before it"
    assert result.exit_code == 2
    assert problem in (json.loads(result.stderr)["error"]["message"] if flags else result.stderr)
    assert [one.body for one in sent(scripted)] == [b"a", b"b"]
    if flags:
        assert len(result.stdout.splitlines()) == 2
    else:
        assert result.stdout.startswith(f"sent 2 messages to {TOPIC}")


async def test_what_a_server_took_of_a_batch_that_it_refused_is_counted(call: Call) -> None:
    def half(request: rpc.SendMessageRequest) -> rpc.SendMessageResponse:
        statuses = [OK, pb.Status(code=pb.FORBIDDEN, message="not this")]
        ids = [one.system_properties.message_id for one in request.messages]
        entries = [rpc.SendResultEntry(status=one, message_id=id_) for one, id_ in zip(statuses, ids, strict=True)]
        return rpc.SendMessageResponse(status=pb.Status(code=pb.MULTIPLE_RESULTS), entries=entries)

    lines = '{"body": "a"}\n{"body": "b"}\n'
    async with ScriptedServer() as refusing:
        refusing.script("SendMessage", half)
        arguments = ("send", TOPIC, "--jsonl", "-", "--endpoint", refusing.endpoint)
        result = await asyncio.to_thread(call, *arguments, stdin=lines)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"sent 1 messages to {TOPIC}")
    assert "1 of 2 messages failed" in result.stderr


async def test_a_time_is_that_of_all_lines(send: Send, scripted: ScriptedServer) -> None:
    lines = '{"body": "a"}\n{"body": "b"}\n'
    assert (await send("--jsonl", "-", "--at", "2099-01-01", stdin=lines)).exit_code == 0
    assert [one.system_properties.message_type for one in sent(scripted)] == [pb.DELAY] * 2


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("body",), "give one of a body, --file and --jsonl"),
        (("--file", "f"), "give one of a body, --file and --jsonl"),
        (("--tag", "t"), "a line of --jsonl has its own tag"),
        (("--message-group", "g"), "a line of --jsonl has its own tag"),
    ],
)
def test_jsonl_excludes_what_its_lines_say(call: Call, flags: tuple[str, ...], problem: str) -> None:
    result = call("send", "orders", "--jsonl", "f", *flags)
    assert (result.exit_code, problem in result.stderr) == (2, True)


async def test_a_file_that_is_not_there_is_wrong_usage(send: Send) -> None:
    result = await send("--jsonl", "/nowhere/x.jsonl")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "can't read /nowhere/x.jsonl" in result.stderr
