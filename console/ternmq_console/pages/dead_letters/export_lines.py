"""Exports dead letters as JSON lines, as `ternmq dlq export` writes them and `ternmq send --jsonl` reads them.

Read        broker by broker, page by page, with one answer in memory. The export is refused without the right to see
            bodies.
Errors      after the beginning are the last line, in the form of the JSON API.
"""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from starlette.responses import StreamingResponse

from ternmq_common.dead_letters import ATTEMPTS, ORIGIN_MESSAGE_ID, ORIGIN_TOPIC, REASON
from ternmq_common.errors import ErrorCode
from ternmq_common.names import dead_letter_topic
from ternmq_common.printable import escape_json
from ternmq_console.api.answers import LINES, problem_json
from ternmq_console.calls import READING
from ternmq_console.operator_calls import NotSignedIn, ServerBusy
from ternmq_console.pages.base.forms import BadForm, PageForm
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.dead_letters.letters import describe_letters, show_letters
from ternmq_console.pages.dead_letters.resending import find_offsets, read_chosen
from ternmq_console.pages.messages.bodies import whole_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.page_context import PageContext
    from ternmq_console.pages.dead_letters.resending import LetterOffsets
    from ternmq_protos.pool import Timestamp

BATCH = 64
_NOTHING_NEW = ErrorCode.MESSAGE_NOT_FOUND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def export_all(request: "Request", asking: "PageContext") -> "Response":
    """Export all letters of the search in the query."""
    try:
        places = await find_offsets(request.path_params["group"], asking, PageForm.of_query(request))
    except BadForm as error:
        return await show_letters(request, asking, error.message)
    return await _export_response(request, asking, places)


async def export_chosen(request: "Request", asking: "PageContext", form: PageForm) -> "Response":
    """Export the chosen letters."""
    return await _export_response(request, asking, read_chosen(form))


async def _export_response(request: "Request", asking: "PageContext", places: "LetterOffsets") -> "Response":
    """Return the file; a refusal of the first read is raised before the file begins."""
    group = request.path_params["group"]
    described = await describe_letters(group, asking)
    is_spread = described is not None and len({queue.broker for queue in described.queues}) > 1
    lines = _read_lines(asking, dead_letter_topic(group), places, is_spread=is_spread)
    first = await anext(lines, b"")

    async def send_lines() -> "AsyncIterator[bytes]":
        yield first
        try:
            async for line in lines:
                yield line
        except CallRefused as error:
            yield _problem_line(error.code, error.message)
        except (ServerBusy, NotSignedIn) as error:
            yield _problem_line("PROXY_TIMEOUT", str(error))

    # A group's name has letters, digits, - and _ (and % and |, which a file need not have).
    name = group.replace("%", "_").replace("|", "_")
    headers = {"content-disposition": f'attachment; filename="{name}-dead-letters.jsonl"'}
    return StreamingResponse(send_lines(), headers=headers, media_type=LINES)


def _problem_line(code: str, message: str) -> bytes:
    return json.dumps(problem_json(code, message)).encode() + b"\n"


async def _read_lines(
    asking: "PageContext", topic: str, places: "LetterOffsets", *, is_spread: bool
) -> "AsyncIterator[bytes]":
    for broker, offsets in places.items():
        wanted, at = offsets, 0
        while at < len(wanted):
            start = wanted[at]
            # Chosen letters are read one by one, a range in batches.
            batch = min(BATCH, len(wanted) - at) if isinstance(wanted, range) else 1
            found, following = await _pull_messages(asking, topic, broker, start, batch)
            for message in found:
                offset = message.system_properties.queue_offset
                if offset in (wanted if isinstance(wanted, range) else (start,)):
                    yield _format_line(message, broker, is_spread=is_spread)
            at = max(at + 1, following - wanted.start) if isinstance(wanted, range) else at + 1


async def _pull_messages(
    asking: "PageContext", topic: str, broker: str, offset: int, batch: int
) -> "tuple[Sequence[Message], int]":
    queue = {"topic": {"name": topic}, "broker": {"name": broker}, "id": 0}
    frames = await asking.call_for_frames(
        READING, also=(_NOTHING_NEW,), message_queue=queue, offset=offset, batch_size=batch
    )
    found = [frame.message for frame in frames if frame.WhichOneof("content") == "message"]
    following = [frame.next_offset for frame in frames if frame.WhichOneof("content") == "next_offset"]
    return found, following[0] if following else offset + 1


def _format_line(message: "Message", broker: str, *, is_spread: bool) -> bytes:
    record = letter_record(message, broker if is_spread else None)
    return escape_json(json.dumps(record, ensure_ascii=False)).encode() + b"\n"


def letter_record(message: "Message", broker: str | None) -> dict[str, object]:
    """Return the record of a letter with all fields; with `broker` if there are several."""
    system, properties = message.system_properties, dict(message.user_properties)
    origin, attempts = system.dead_letter_queue, properties.get(ATTEMPTS, "")
    return {
        **({} if broker is None else {"broker": broker}),
        "offset": system.queue_offset,
        "message_id": system.message_id,
        "origin_topic": properties.get(ORIGIN_TOPIC) or origin.topic or None,
        "origin_message_id": properties.get(ORIGIN_MESSAGE_ID) or origin.message_id or None,
        "attempts": int(attempts) if attempts.isascii() and attempts.isdigit() else None,
        "reason": properties.get(REASON),
        "tag": system.tag or None,
        "keys": list(system.keys),
        "message_group": system.message_group or None,
        "priority": system.priority if system.HasField("priority") else None,
        "lite_topic": system.lite_topic or None,
        "properties": dict(sorted(properties.items())),
        "born": _format_time(system, "born_timestamp"),
        "stored": _format_time(system, "store_timestamp"),
        "delivery": _format_time(system, "delivery_timestamp"),
        "body_bytes": len(message.body),
        **_body_fields(whole_body(message)),
    }


def _format_time(system: "Message", field: str) -> str | None:
    """Format a time: `2026-08-01T12:00:00.123Z`; None if it is not set, or outside the calendar."""
    if not system.HasField(field):
        return None
    time: Timestamp = getattr(system, field)
    try:
        at = _EPOCH + timedelta(seconds=time.seconds, microseconds=time.nanos // 1000)
    except OverflowError:
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _body_fields(body: bytes) -> dict[str, Any]:
    """Return the body as `body` if it is UTF-8, else as `body_base64`."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
