"""The receipt handle: the right to settle one delivery, as opaque text that any proxy can serve.

Text: the version `1`, then base64url of the packed fields and of the broker's name.

    queue_id u16 | queue_offset u64 | generation u64 | deadline_ms u64 | check u32 | broker's name, UTF-8

Little-endian. `generation` is the broker's count of hand-outs in that queue, so a handle that was replaced is told from
the one in force. `deadline_ms` is when the right ends unless it was prolonged, in milliseconds since the epoch. `check`
is the crc32 of all other fields with the topic and the group, so a handle that was garbled or that belongs elsewhere is
refused instead of settling a stranger's message.
"""

import binascii
import struct
from functools import lru_cache
from zlib import crc32

from msgspec import Struct

from ternmq_common.errors import MessagingError
from ternmq_common.ranges import Int64, UInt32
from ternmq_protos.v2 import definition_pb2

_VERSION = "1"
_VERSION_BYTE = b"1"
_FIELDS = struct.Struct("<HQQQ")
_FIELDS_BYTES = _FIELDS.size
_CHECK = struct.Struct("<I")
_CHECKED = struct.Struct("<HQQQI")
_CHECKED_BYTES = _CHECKED.size
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")
_PADDING = (b"", b"===", b"==", b"=")
_FORMS_MAX = 1024


class ReceiptHandle(Struct, frozen=True, array_like=True, gc=False):
    """What a handle's text holds; see the module."""

    broker: str
    queue_id: UInt32
    queue_offset: Int64
    generation: Int64
    deadline_ms: Int64

    def encode(self, *, group: str, topic: str) -> str:
        return handle_form(group, topic).encode(self).decode()

    @classmethod
    def decode(cls, text: str, *, group: str, topic: str) -> "ReceiptHandle":
        """The handle of `text`, or INVALID_RECEIPT_HANDLE if it isn't one for this group and topic."""
        return handle_form(group, topic).decode(text)


class HandleForm:
    """The handles of one group and topic as text, for who has many; see `handle_form`."""

    __slots__ = ("_belongs", "_group", "_topic")

    def __init__(self, group: str, topic: str) -> None:
        self._group = group
        self._topic = topic
        self._belongs = f"{group}\n{topic}\n".encode()

    def encode(self, handle: ReceiptHandle) -> bytes:
        """The text, which is ASCII."""
        fields = _FIELDS.pack(handle.queue_id, handle.queue_offset, handle.generation, handle.deadline_ms)
        broker = handle.broker.encode()
        check = crc32(self._belongs, crc32(broker, crc32(fields)))
        text = binascii.b2a_base64(fields + _CHECK.pack(check) + broker, newline=False)
        return _VERSION_BYTE + text.translate(_TO_URL).rstrip(b"=")

    def decode(self, text: str) -> ReceiptHandle:
        """The handle of `text`, or INVALID_RECEIPT_HANDLE if it isn't one for this group and topic."""
        if not text.startswith(_VERSION):
            raise _invalid("it is empty or of another version")
        try:
            coded = text[1:].encode("ascii").translate(_FROM_URL)
            packed = binascii.a2b_base64(coded + _PADDING[len(coded) & 3])
            queue_id, queue_offset, generation, deadline_ms, check = _CHECKED.unpack_from(packed)
            broker = packed[_CHECKED_BYTES:]
            name = broker.decode()
        except (binascii.Error, struct.error, ValueError):
            raise _invalid("it does not parse") from None
        if check != crc32(self._belongs, crc32(broker, crc32(packed[:_FIELDS_BYTES]))):
            raise _invalid(f"it was not given to group {self._group!r} for topic {self._topic!r}")
        return ReceiptHandle(name, queue_id, queue_offset, generation, deadline_ms)


@lru_cache(_FORMS_MAX)
def handle_form(group: str, topic: str) -> HandleForm:
    """That of the group's handles for the topic; those that were used last are kept."""
    return HandleForm(group, topic)


def _invalid(reason: str) -> MessagingError:
    return MessagingError(definition_pb2.INVALID_RECEIPT_HANDLE, f"the receipt handle can't be used: {reason}")
