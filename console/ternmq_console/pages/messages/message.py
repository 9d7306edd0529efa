"""The page of one message, with a permanent address: its properties, its state in groups, and its body."""

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import StreamingResponse

from ternmq_common.errors import ErrorCode
from ternmq_common.names import dead_letter_topic
from ternmq_console.pages.base.forms import BadForm, PageForm
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import render_page
from ternmq_console.pages.messages.bodies import FORMS, body_pieces, mark_up, open_body, show_body
from ternmq_console.pages.messages.message_rows import MessagePosition, enum_name
from ternmq_console.pages.messages.reading import read_message
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.page_context import PageContext

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_FILE_NAME_MAX = 80


def _read_position(request: "Request") -> MessagePosition:
    """Return the position in the query; raises Refused if it is invalid."""
    query = PageForm.of_query(request)
    try:
        queue = query.parse_integer("queue")
        return MessagePosition(
            query.raw("topic"), query.raw("broker"), queue, query.parse_integer("offset"), query.raw("lite")
        )
    except BadForm as error:
        raise CallRefused(ErrorCode.BAD_REQUEST, f"The address names no message: {error.message}.") from error


async def show_message(request: "Request", asking: "PageContext") -> "Response":
    """Show the message."""
    place = _read_position(request)
    found, standings = await _describe_message(asking, place)
    form = request.query_params.get("as", "")
    return await render_page(
        request, asking, "messages/one.html",
        title=f"Message at {place.offset:,} of {place.topic}", place=place, system=found.system_properties,
        facts=_message_facts(found.system_properties), properties=sorted(found.user_properties.items()), forms=FORMS,
        before=_neighbour_path(place, -1), after=_neighbour_path(place, 1),
        letter_of=found.system_properties.dead_letter_queue, standings=standings, **await body_values(found, form),
    )  # fmt: skip


async def _describe_message(asking: "PageContext", place: MessagePosition) -> "tuple[Message, list[StatusRow]]":
    """Return the message and its state in groups; raises Refused, also if it does not exist (any more)."""
    answer = await asking.call_server(
        "DescribeMessage", topic=place.topic, broker=place.broker, queue_id=place.queue, offset=place.offset,
        lite_topic=place.lite,
    )  # fmt: skip
    return answer.message, [_status_row(each, place) for each in answer.standings]


class StatusRow(NamedTuple):
    """The status of the message in one consumer group; `letter` is the page of the dead letter that it became, or
    empty."""

    group: str
    says: str
    attempts: int
    until: "Message | None"
    letter: str


_SAYS = {
    admin_pb2.AHEAD: "not delivered yet",
    admin_pb2.HELD: "a consumer has it",
    admin_pb2.AGAIN: "waits for another delivery",
    admin_pb2.FINISHED: "finished: acknowledged, filtered out or skipped",
    admin_pb2.DEAD: "a dead letter",
}


def _status_row(status: "Message", place: MessagePosition) -> StatusRow:
    letter = ""
    if status.HasField("dead_letter_offset"):
        letter = MessagePosition(dead_letter_topic(status.group), place.broker, 0, status.dead_letter_offset).path
    return StatusRow(
        status.group,
        _SAYS.get(status.state, "unknown"),
        status.attempts,
        status.until if status.HasField("until") else None,
        letter,
    )


async def body_values(message: "Message", form: str) -> dict[str, Any]:
    """Return the values of `messages/bodies.html` for the body, in one of FORMS."""
    return {"marked": _mark_up, **await asyncio.to_thread(_show_body, message, form)}


def _show_body(message: "Message", form: str) -> dict[str, Any]:
    """Return the body for the template; empty if the user may not see it, since every message has a body."""
    if not message.body:
        return {"body": None, "shown_as": None}
    body = open_body(message)
    return {"body": body, "shown_as": show_body(body, form)}


def _mark_up(text: str) -> str:
    return mark_up(text)[0]


def _neighbour_path(place: MessagePosition, step: int) -> str:
    """Return the page of the previous or next message in the queue; empty before the first."""
    return place._replace(offset=place.offset + step).path if place.offset + step >= 0 else ""


def _message_facts(system: "Message") -> list[tuple[str, str]]:
    """Return the system properties that are set, with names for people."""
    digest = system.body_digest
    kind = enum_name(definition_pb2.DigestType, digest.type)
    found = [
        ("Message id", system.message_id),
        ("Tag", system.tag),
        *(("Key", key) for key in system.keys),
        ("Type", enum_name(definition_pb2.MessageType, system.message_type).lower()),
        ("Message group", system.message_group),
        ("Lite topic", system.lite_topic),
        ("Priority", f"{system.priority:,}" if system.HasField("priority") else ""),
        ("Born at host", system.born_host),
        ("Stored by", system.store_host),
        ("Trace context", system.trace_context),
        ("Body digest", f"{kind} {digest.checksum}".strip() if digest.checksum else ""),
        ("Body encoding", enum_name(definition_pb2.Encoding, system.body_encoding).lower()),
    ]
    return [(name, text) for name, text in found if text]


async def download_body(request: "Request", asking: "PageContext") -> "Response":
    """Return the whole body as a download, which browsers do not display."""
    found = await read_message(asking, _read_position(request))
    if not found.body:
        raise CallRefused(ErrorCode.UNAUTHORIZED, "You may not see the bodies of this topic's messages.")
    body = await asyncio.to_thread(open_body, found)
    name = _UNSAFE.sub("_", found.system_properties.message_id)[:_FILE_NAME_MAX] or "message"
    headers = {
        "content-disposition": f'attachment; filename="{name}.bin"',
        "content-length": str(body.length),
        "x-content-type-options": "nosniff",
    }
    return StreamingResponse(body_pieces(found, body), headers=headers, media_type="application/octet-stream")


def found_path(topic: str, message_id: str, lite: str = "") -> str:
    """Return the page that finds a message by its id; for a lite topic, the list of its messages."""
    query = {"topic": topic} | ({"lite": lite} if lite else {"id": message_id})
    return f"/console/messages?{urlencode(query)}"
