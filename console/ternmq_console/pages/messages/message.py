"""The page of one message, with a permanent address: its properties, its state in groups, and its body."""

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import StreamingResponse

from ternmq_common.errors import ErrorCode
from ternmq_common.names import dead_letter_topic
from ternmq_console.pages.base.answering import page
from ternmq_console.pages.base.asking import Refused
from ternmq_console.pages.base.forms import BadForm, Form
from ternmq_console.pages.messages.bodies import FORMS, marked, opened, pieces, shown_body
from ternmq_console.pages.messages.places import Place, enum_name
from ternmq_console.pages.messages.reading import message_at
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_FILE_NAME_MAX = 80


def _place(request: "Request") -> Place:
    """Return the position in the query; raises Refused if it is invalid."""
    query = Form.of_query(request)
    try:
        queue = query.whole("queue")
        return Place(query.raw("topic"), query.raw("broker"), queue, query.whole("offset"), query.raw("lite"))
    except BadForm as error:
        raise Refused(ErrorCode.BAD_REQUEST, f"The address names no message: {error.message}.") from error


async def one(request: "Request", asking: "Asking") -> "Response":
    """Show the message."""
    place = _place(request)
    found, standings = await _described(asking, place)
    form = request.query_params.get("as", "")
    return await page(
        request, asking, "messages/one.html",
        title=f"Message at {place.offset:,} of {place.topic}", place=place, system=found.system_properties,
        facts=_facts(found.system_properties), properties=sorted(found.user_properties.items()), forms=FORMS,
        asked_form=form if form in FORMS else "", before=_neighbour(place, -1), after=_neighbour(place, 1),
        letter_of=found.system_properties.dead_letter_queue, standings=standings, **await body_values(found, form),
    )  # fmt: skip


async def _described(asking: "Asking", place: Place) -> "tuple[Message, list[StatusRow]]":
    """Return the message and its state in groups; raises Refused, also if it does not exist (any more)."""
    answer = await asking.ask(
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


def _status_row(status: "Message", place: Place) -> StatusRow:
    letter = ""
    if status.HasField("dead_letter_offset"):
        letter = Place(dead_letter_topic(status.group), place.broker, 0, status.dead_letter_offset).path
    return StatusRow(
        status.group,
        _SAYS.get(status.state, "unknown"),
        status.attempts,
        status.until if status.HasField("until") else None,
        letter,
    )


async def body_values(message: "Message", form: str) -> dict[str, Any]:
    """Return the values of `messages/bodies.html` for the body, in one of FORMS."""
    return {"marked": _marked, **await asyncio.to_thread(_shown, message, form)}


def _shown(message: "Message", form: str) -> dict[str, Any]:
    """Return the body for the template; empty if the user may not see it, since every message has a body."""
    if not message.body:
        return {"body": None, "shown_as": None}
    body = opened(message)
    return {"body": body, "shown_as": shown_body(body, form)}


def _marked(text: str) -> str:
    return marked(text)[0]


def _neighbour(place: Place, step: int) -> str:
    """Return the page of the previous or next message in the queue; empty before the first."""
    return place._replace(offset=place.offset + step).path if place.offset + step >= 0 else ""


def _facts(system: "Message") -> list[tuple[str, str]]:
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


async def download(request: "Request", asking: "Asking") -> "Response":
    """Return the whole body as a download, which browsers do not display."""
    found = await message_at(asking, _place(request))
    if not found.body:
        raise Refused(ErrorCode.UNAUTHORIZED, "You may not see the bodies of this topic's messages.")
    body = await asyncio.to_thread(opened, found)
    name = _UNSAFE.sub("_", found.system_properties.message_id)[:_FILE_NAME_MAX] or "message"
    headers = {
        "content-disposition": f'attachment; filename="{name}.bin"',
        "content-length": str(body.length),
        "x-content-type-options": "nosniff",
    }
    return StreamingResponse(pieces(found, body), headers=headers, media_type="application/octet-stream")


def found_path(topic: str, message_id: str, lite: str = "") -> str:
    """Return the page that finds a message by its id; for a lite topic, the list of its messages."""
    said = {"topic": topic} | ({"lite": lite} if lite else {"id": message_id})
    return f"/console/messages?{urlencode(said)}"
