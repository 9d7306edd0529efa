"""Parses messages from JSON lines, as `tail --json`, `receive --json` and `dlq export` write them, for `send --jsonl`.

Line      one JSON object in UTF-8 of at most LINE_BYTES_MAX bytes, or blank.
Sent      `body` or `body_base64`, and optionally `tag`, `keys`, `properties`, `message_group`, `priority` and
          `lite_topic`; without the properties that give the reason of a dead letter. `delivery`, the time of delivery,
          is for topics of type DELAY.
Ignored   the fields of IGNORED, which describe the delivery or position of the message that was read.
Refused   any other field, a wrong type, a repeated name, and text that can't be UTF-8.

A page is what can be read without waiting: from a pipe, a message is sent when it comes, not when a batch is full.
"""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from ternmq.errors import ClientError
from ternmq_command.terminal.output import format_count
from ternmq_command.terminal.time_parsing import parse_exact_time
from ternmq_common.dead_letters import DEAD_LETTER_PROPERTIES
from ternmq_common.limits import KIB, MIB
from ternmq_common.printable import cut_text

if TYPE_CHECKING:
    from ternmq import Message

# A body of 4 MiB of which JSON escapes each byte (`\u0000`) takes 24 MiB.
LINE_BYTES_MAX = 32 * MIB
CHUNK_BYTES = 64 * KIB
BATCH_MESSAGES = 100
BATCH_BYTES = MIB
PRIORITY_MAX = 2**31 - 1  # the wire's int32
SENT = frozenset(
    {"body", "body_base64", "tag", "keys", "properties", "message_group", "priority", "lite_topic", "delivery"}
)
IGNORED = frozenset(
    """
    topic message_id broker queue offset born born_host stored attempt attempts body_bytes
    origin_topic origin_message_id reason
    """.split()  # noqa: SIM905
)


class ReadableFile(Protocol):
    """A file whose `read1` returns the bytes that are there, and waits only if there are none."""

    def read1(self, size: int, /) -> bytes: ...


class BadLine(ValueError):
    """An invalid line; all messages before it were sent, `sent` is their number."""

    def __init__(self, number: int, problem: str) -> None:
        self.number, self.problem, self.sent = number, problem, 0
        super().__init__(number, problem)

    def __str__(self) -> str:
        before = f"sent {format_count(self.sent, 'message')} before it" if self.sent else "nothing was sent"
        return f"line {self.number}: {self.problem}; {before}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineContent:
    """The fields of a line for the message to send."""

    body: bytes
    tag: str | None = None
    keys: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    message_group: str | None = None
    priority: int | None = None
    lite_topic: str | None = None
    delivery: datetime | None = None


def message_batches(
    source: ReadableFile,
    message_of: "Callable[[LineContent], Message]",
    *,
    line_bytes_max: int = LINE_BYTES_MAX,
    chunk_bytes: int = CHUNK_BYTES,
) -> "Iterator[Sequence[Message]]":
    """Yield batches of messages; the caller must have sent a batch when it takes the next one.

    Raises BadLine after the last message before an invalid line.
    """
    sent = 0
    try:
        for page in numbered_pages(source, line_bytes_max=line_bytes_max, chunk_bytes=chunk_bytes):
            messages, bad = _parse_messages(page, message_of, line_bytes_max)
            for batch in _split_batches(messages):
                yield batch
                sent += len(batch)
            if bad is not None:
                raise bad
    except BadLine as bad:
        bad.sent = sent
        raise


def numbered_pages(
    source: ReadableFile, *, line_bytes_max: int = LINE_BYTES_MAX, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the lines as they come, numbered from 1; raises BadLine for a line that is too long, without reading it
    all."""
    number, rest = 1, bytearray()
    while chunk := source.read1(chunk_bytes):
        first, *others = chunk.split(b"\n")
        rest += first
        if others:
            lines = [bytes(rest), *others[:-1]]
            rest = bytearray(others[-1])
            yield list(enumerate(lines, number))
            number += len(lines)
        if len(rest) > line_bytes_max:
            raise BadLine(number, _length_problem(line_bytes_max))
    if rest:
        yield [(number, bytes(rest))]


def parse_line(line: bytes, line_bytes_max: int = LINE_BYTES_MAX) -> LineContent:
    """Parse a line; raises ValueError, which says what is wrong."""
    if len(line) > line_bytes_max:
        raise ValueError(_length_problem(line_bytes_max))
    record = _json_object(line)
    if unknown := sorted(record.keys() - SENT - IGNORED):
        raise ValueError(f"there is no field {cut_text(unknown[0])!r}")
    properties = _parse_properties(record.get("properties", {}))
    return LineContent(
        body=_parse_body(record),
        tag=_text_or_none(record, "tag"),
        keys=_parse_keys(record.get("keys", [])),
        properties={name: value for name, value in properties.items() if name not in DEAD_LETTER_PROPERTIES},
        message_group=_text_or_none(record, "message_group"),
        priority=_parse_priority(record.get("priority")),
        lite_topic=_text_or_none(record, "lite_topic"),
        delivery=_parse_delivery(record.get("delivery")),
    )


def _parse_messages(
    page: Sequence[tuple[int, bytes]], message_of: "Callable[[LineContent], Message]", line_bytes_max: int
) -> "tuple[list[Message], BadLine | None]":
    """Return the messages before the first invalid line, and its error."""
    messages = []
    for number, line in page:
        if not line.strip():
            continue
        try:
            messages.append(message_of(parse_line(line, line_bytes_max)))
        except ClientError as error:
            return messages, BadLine(number, error.message)
        except ValueError as error:
            return messages, BadLine(number, str(error))
    return messages, None


def _split_batches(messages: "Sequence[Message]") -> "Iterator[Sequence[Message]]":
    start = batch_bytes = 0
    for index, message in enumerate(messages):
        if index > start and (index - start == BATCH_MESSAGES or batch_bytes + len(message.body) > BATCH_BYTES):
            yield messages[start:index]
            start, batch_bytes = index, 0
        batch_bytes += len(message.body)
    if messages:
        yield messages[start:]


def _length_problem(line_bytes_max: int) -> str:
    return f"it has more than {line_bytes_max:,} bytes"


def _json_object(line: bytes) -> dict[str, object]:
    try:
        record = json.loads(line.decode(), object_pairs_hook=_check_unique_names)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(record, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - as JSON's own errors are
    return record


def _check_unique_names(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record: dict[str, object] = {}
    for name, value in pairs:
        if name in record:
            raise ValueError(f"it has {cut_text(name)!r} twice")
        record[name] = value
    return record


def _parse_body(record: dict[str, object]) -> bytes:
    if ("body" in record) == ("body_base64" in record):
        raise ValueError("one of body and body_base64 is needed")
    if "body" in record:
        return _check_text(record["body"], "body").encode()
    try:
        return base64.b64decode(_check_text(record["body_base64"], "body_base64"), validate=True)
    except ValueError:
        raise ValueError("body_base64 is no base64") from None


def _text_or_none(record: dict[str, object], name: str) -> str | None:
    value = record.get(name)
    return None if value is None else _check_text(value, name)


def _parse_keys(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("keys must be a list of texts")  # noqa: TRY004
    return tuple(_check_text(key, "each of keys") for key in value)


def _parse_properties(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("properties must be an object of texts")  # noqa: TRY004
    return {
        _check_text(name, "a name in properties"): _check_text(text, "each of properties")
        for name, text in value.items()
    }


def _parse_priority(value: object) -> int | None:
    if value is not None and (type(value) is not int or not 0 <= value <= PRIORITY_MAX):
        raise ValueError(f"priority must be a number from 0 to {PRIORITY_MAX}")
    return value


def _parse_delivery(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        return parse_exact_time(_check_text(value, "delivery"))
    except ValueError:
        raise ValueError("delivery must be a time like 2026-08-01T12:00:00Z") from None


def _check_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be text")  # noqa: TRY004
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} contains a lone surrogate") from None
    return value
