"""Reads an ordinary acknowledgement from the bytes of its request, and writes the answer to a fully successful one.

Ordinary: group, topic and entries in the order of their numbers, each entry with a message id or none and a receipt
handle, and with the same lite topic, or none. An entry of the answer has id and handle under the same numbers, so that
it is the entry that came, without the lite topic, and its status.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf.message import DecodeError

from ternmq_common.wire import encode_field, encode_varint
from ternmq_proxy.fronts.grpc.activities.request_bytes import resource_name
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.fronts.wire_fields import NotOrdinary, content_span

if TYPE_CHECKING:
    from collections.abc import Sequence

_GROUP: Final = 0x0A  # of an AckMessageRequest
_TOPIC: Final = 0x12
_ENTRIES: Final = 0x1A
_MESSAGE_ID: Final = 0x0A  # of an AckMessageEntry, and of an AckMessageResultEntry
_HANDLE: Final = 0x12
_LITE_TOPIC: Final = 0x1A
_OK: Final = OK.SerializeToString()
_STATUS: Final = encode_field(b"\x0a", _OK)  # AckMessageResponse.status = 1
_ENTRY_TAG: Final = b"\x12"  # AckMessageResponse.entries = 2
_ENTRY_STATUS: Final = encode_field(b"\x1a", _OK)  # AckMessageResultEntry.status = 3


class OrdinaryAcknowledgement(NamedTuple):
    """The consumer group, the topic and lite topic of the messages, the entries in the form in which they are answered,
    and the handles."""

    group: str
    topic: str
    lite_topic: str
    entries: list[bytes]
    handles: list[bytes]


def read_acknowledgement(data: bytes, *, most: int) -> OrdinaryAcknowledgement:
    """Return the acknowledgement in a request. Raises NotOrdinary, also for no entry and for more than `most`."""
    entries: list[bytes] = []
    handles: list[bytes] = []
    lite_topic = b""
    end = len(data)
    try:
        if data[0] != _GROUP:
            raise NotOrdinary
        begin, at = content_span(data, 1, end)
        group = resource_name(data[begin:at])
        if data[at] != _TOPIC:
            raise NotOrdinary
        begin, at = content_span(data, at + 1, end)
        topic = resource_name(data[begin:at])
        while at < end:
            if data[at] != _ENTRIES or len(entries) == most:
                raise NotOrdinary
            begin, at = content_span(data, at + 1, end)
            handle, handle_end = _read_handle(data, begin, at)
            lite = data[handle_end:at]
            if entries and lite != lite_topic:
                raise NotOrdinary
            lite_topic = lite
            entries.append(data[begin:handle_end])
            handles.append(handle)
        name = _lite_name(lite_topic)
    except (IndexError, UnicodeDecodeError, DecodeError) as error:
        raise NotOrdinary from error
    if not entries:
        raise NotOrdinary
    return OrdinaryAcknowledgement(group, topic, name, entries, handles)


def _lite_name(field: bytes) -> str:
    """Return the lite topic at the end of an entry, "" if there is none."""
    if not field:
        return ""
    if field[0] != _LITE_TOPIC:
        raise NotOrdinary
    begin, at = content_span(field, 1, len(field))
    if at != len(field) or begin == at:
        raise NotOrdinary
    return field[begin:at].decode()


def _read_handle(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Return the handle of the entry at this position, and where the entry ends."""
    if at < end and data[at] == _MESSAGE_ID:
        begin, at = content_span(data, at + 1, end)
        data[begin:at].decode()
    if at >= end or data[at] != _HANDLE:
        raise NotOrdinary
    begin, at = content_span(data, at + 1, end)
    handle = data[begin:at]
    if not handle.isascii():
        raise NotOrdinary
    return handle, at


def serialize_success(entries: "Sequence[bytes]") -> bytes:
    """Return the bytes of an `AckMessageResponse` that acknowledges all entries."""
    parts = [_STATUS]
    for entry in entries:
        parts += (_ENTRY_TAG, encode_varint(len(entry) + len(_ENTRY_STATUS)), entry, _ENTRY_STATUS)
    return b"".join(parts)
