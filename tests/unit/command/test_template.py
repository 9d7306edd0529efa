"""`--format`: lines of one's own making, which can't reach into anything and can't act on a terminal."""

import base64
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq.connections.endpoints import Endpoints
from ternmq.messages.message_view import MessageView
from ternmq_command.calls.library import message_record
from ternmq_command.dlq.dead_letters import full_letter_record
from ternmq_command.message.fields import BODIES, LETTER_FIELDS, MESSAGE_FIELDS, STORED_FIELDS
from ternmq_command.message.message import full_message_record
from ternmq_command.terminal.template import TEMPLATE_CHARACTERS_MAX, Template
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.messaging_server import dead_letter, message

NOWHERE = Endpoints(scheme=pb.ADDRESS_SCHEME_UNSPECIFIED, addresses=())
KNOWN = ("topic", "offset", "keys", "properties", "is_new", "body", "body_base64")
RECORD = {
    "topic": "orders",
    "offset": 7,
    "keys": ["a", "b"],
    "properties": {"region": "eu", "a.b": "c"},
    "is_new": True,
    "body": "h\u00e9llo\x1b[2J",
}


def rendered(text: str, *, raw: bool = False, **changed: object) -> str:
    return Template.parse(text, KNOWN).render_line({**RECORD, **changed}, raw=raw)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{topic} {offset} {keys}", "orders 7 a,b"),
        ("{topic}{topic}", "ordersorders"),
        ("{{{topic}}}", "{orders}"),
        ("{{topic}}", "{topic}"),
        (r"{topic}\t{offset}\n\\n\x", "orders\t7\n\\n\\x"),
        ("{properties.region} {properties.a.b} {properties.none}.", "eu c ."),
        ("{topic.region}", ""),
        ("{properties}", '{"region": "eu", "a.b": "c"}'),
        ("{is_new}", "yes"),
        ("no field", "no field"),
        ("", ""),
    ],
)
def test_a_template_is_a_line_of_fields_and_texts(text: str, line: str) -> None:
    assert rendered(text) == line


def test_values_that_act_on_a_terminal_are_escaped_unless_raw_is_asked_for() -> None:
    assert rendered("{body}") == "h\u00e9llo\\x1b[2J"
    assert rendered("{body}", raw=True) == "h\u00e9llo\x1b[2J"
    assert rendered("{keys}", keys=["a\nb"]) == r"a\nb"


def test_every_message_has_a_body_and_its_base64() -> None:
    packed = base64.b64encode(b"\xff\x00").decode()
    binary = {name: value for name, value in RECORD.items() if name != "body"} | {"body_base64": packed}
    template = Template.parse("{body} {body_base64}", KNOWN)
    assert template.render_line(binary) == f"base64:{packed} {packed}"
    assert base64.b64decode(rendered("{body_base64}")).decode() == RECORD["body"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{nope}", "there is no field 'nope'; there are topic, offset, keys"),
        ("{topic!r}", "there is no field 'topic!r'"),
        ("{topic:>9999999999}", "there is no field 'topic:>9999999999'"),
        ("{offset.__class__.__mro__}", None),
        ("{}", "there is no field ''"),
        ("{topic", "a { stands alone at character 1"),
        ("a}", "a } stands alone at character 2"),
        ("x" * (TEMPLATE_CHARACTERS_MAX + 1), "more than 10,000 characters"),
    ],
)
def test_what_is_no_template_is_refused_with_what_is_allowed(text: str, problem: str | None) -> None:
    if problem is None:
        assert rendered(text) == ""  # a name is looked for among pairs of a record, and nowhere else
        return
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - its words follow
        Template.parse(text, KNOWN)
    assert problem in str(refused.value)


@given(st.text(st.sampled_from(string.printable + "{}\\")))
def test_a_text_whose_braces_and_backslashes_are_doubled_is_itself(text: str) -> None:
    doubled = text.replace("\\", "\\\\").replace("{", "{{").replace("}", "}}")
    assert Template.parse(doubled, KNOWN).render_line(RECORD) == text


def test_the_fields_that_are_offered_are_those_of_json() -> None:
    view = MessageView(message("a"), broker="b", endpoints=NOWHERE)
    assert (*message_record(view), BODIES[1]) == MESSAGE_FIELDS
    assert (*full_message_record(view), BODIES[1]) == STORED_FIELDS
    letter = MessageView(dead_letter(1), broker="b", endpoints=NOWHERE)
    assert (*full_letter_record(letter, with_broker=True), BODIES[1]) == LETTER_FIELDS


@pytest.mark.parametrize("noun", ["topic", "group"])
def test_lists_offer_all_fields_of_json(call_server: Call, noun: str) -> None:
    call_server(noun, "create", "first")
    (record,) = json.loads(call_server(noun, "list", "--json").stdout)
    refused = call_server(noun, "list", "--format", "{nope}")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"there are {', '.join(record)}" in refused.stderr
    assert call_server(noun, "list", "--format", "-{name}-").stdout == "-first-\n"


def test_messages_and_dead_letters_are_printed_by_a_template(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders", "--queues", "1")
    call_server("topic", "create", "%DLQ%billing", "--queues", "1")
    call_server("group", "create", "billing")
    server.memory.put("orders", 0, message("one", message_id="id-1", properties={"region": "eu"}))
    server.memory.put("%DLQ%billing", 0, dead_letter(2))
    line = "{offset} {properties.region} {body}"
    for arguments in (
        ("find", "orders"),
        ("get", "orders", "id-1"),
        ("get", "orders", "--queue", "0", "--offset", "0"),
    ):
        assert call_server("message", *arguments, "--format", line).stdout == "0 eu one\n"
    for arguments in (("list", "billing"), ("show", "billing", "0")):
        assert call_server("dlq", *arguments, "--format", "{offset} {reason} {body}").stdout == "0 attempts body 2\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("tail", "t"),
        ("receive", "t", "--group", "g"),
        ("message", "find", "t"),
        ("message", "get", "t", "id"),
        ("dlq", "list", "g"),
        ("dlq", "show", "g", "0"),
        ("topic", "list"),
        ("group", "list"),
    ],
    ids=" ".join,
)
def test_json_and_a_template_exclude_each_other(call: Call, arguments: tuple[str, ...]) -> None:
    refused = call(*arguments, "--json", "--format", "{nope}")
    assert (refused.exit_code, "there is no field 'nope'" in refused.stderr) == (2, True)
    refused = call(*arguments, "--json", "--format", "x")
    assert (refused.exit_code, "give --json or --format, not both" in refused.stderr) == (2, True)
