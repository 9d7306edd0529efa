"""The positions of messages, and their rows in lists."""

import re
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_console.operator_calls import Message

BEGINNING = 80
"""Characters of a body that a list shows."""
# A character has at most 4 bytes in UTF-8.
_BEGINNING_BYTES = 4 * BEGINNING
# zlib reads gzip and zlib headers alike with this, as clients do: one producer writes zlib and calls it gzip.
ANY_HEADER = zlib.MAX_WBITS | 32
# Replaced, since a list shows the body on one line.
_LAYOUT = re.compile(r"[ \t\r\n]+")


class QueueKey(NamedTuple):
    """One message queue of a topic."""

    broker: str
    number: int


class MessagePosition(NamedTuple):
    """The position of one message; in a lite topic, `queue` is 0."""

    topic: str
    broker: str
    queue: int
    offset: int
    lite: str = ""

    @property
    def query(self) -> str:
        """The position as the query of an address."""
        position = {"topic": self.topic, "broker": self.broker, "queue": self.queue, "offset": self.offset}
        return urlencode(position | ({"lite": self.lite} if self.lite else {}))

    @property
    def path(self) -> str:
        """The page of the message."""
        return f"/console/messages/one?{self.query}"


class MessageRow(NamedTuple):
    """A message in a list, without its body.

    `size` is that of the stored body, None if the user may not see it; `beginning` is "" if the body is no text.
    """

    place: MessagePosition
    system: "Message"
    properties: "dict[str, str]"
    size: int | None
    beginning: str
    is_longer: bool

    @property
    def kind(self) -> str:
        """The name of the message's type."""
        return enum_name(definition_pb2.MessageType, self.system.message_type).lower()

    @property
    def stored_ns(self) -> int:
        """The store time in nanoseconds, to sort messages."""
        time = self.system.store_timestamp
        return int(time.seconds * 1_000_000_000 + time.nanos)


def enum_name(kind: Any, number: int) -> str:  # noqa: ANN401 - a type of an enum
    """Return the name of an enum's value; "" for 0, and the number of an unknown value."""
    if not number:
        return ""
    return str(kind.Name(number)) if number in kind.values() else str(number)


def build_row(message: "Message", topic: str, broker: str, lite: str = "") -> MessageRow:
    """Return the row of a message."""
    system = message.system_properties
    text = _body_beginning(message)
    return MessageRow(
        MessagePosition(topic, broker, 0 if lite else system.queue_id, system.queue_offset, lite),
        system,
        dict(message.user_properties),
        len(message.body) or None,
        text[:BEGINNING],
        is_longer=len(text) > BEGINNING or len(message.body) > _BEGINNING_BYTES,
    )


def _body_beginning(message: "Message") -> str:
    """Return the first characters of a body that is text; "" for any other."""
    try:
        data = message.body[: _BEGINNING_BYTES + 1]
        if message.system_properties.body_encoding == definition_pb2.GZIP:
            data = zlib.decompressobj(ANY_HEADER).decompress(message.body, _BEGINNING_BYTES + 1)
        # The last character may have been cut, which is no fault of the body.
        text = data.decode(errors="strict") if len(data) <= _BEGINNING_BYTES else _cut_text(data)
    except (zlib.error, UnicodeDecodeError):
        return ""
    return "" if "\x00" in text else _LAYOUT.sub(" ", text)


def _cut_text(data: bytes) -> str:
    """Decode the beginning of a text, whose last character may be cut; raises UnicodeDecodeError."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3:
            raise
        return data[: error.start].decode()
