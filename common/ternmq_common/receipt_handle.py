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
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple
from zlib import crc32

from ternmq_common.errors import MessagingError
from ternmq_common.ranges import Int64, UInt32
from ternmq_protos.v2 import definition_pb2

_VERSION = "1"
_FIELDS = struct.Struct("<HQQQ")
_CHECK = struct.Struct("<I")


class ReceiptHandle(NamedTuple):
    """What a handle's text holds; see the module."""

    broker: str
    queue_id: UInt32
    queue_offset: Int64
    generation: Int64
    deadline_ms: Int64

    def encode(self, *, group: str, topic: str) -> str:
        fields = _FIELDS.pack(self.queue_id, self.queue_offset, self.generation, self.deadline_ms)
        broker = self.broker.encode()
        check = _CHECK.pack(_check(fields, broker, group, topic))
        return _VERSION + urlsafe_b64encode(fields + check + broker).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str, *, group: str, topic: str) -> "ReceiptHandle":
        """The handle of `text`, or INVALID_RECEIPT_HANDLE if it isn't one for this group and topic."""
        if not text.startswith(_VERSION):
            raise _invalid("it is empty or of another version")
        try:
            packed = urlsafe_b64decode(text[1:] + "=" * (-len(text[1:]) % 4))
            fields, broker = packed[: _FIELDS.size], packed[_FIELDS.size + _CHECK.size :]
            queue_id, queue_offset, generation, deadline_ms = _FIELDS.unpack(fields)
            (check,) = _CHECK.unpack_from(packed, _FIELDS.size)
            name = broker.decode()
        except (binascii.Error, struct.error, ValueError):
            raise _invalid("it does not parse") from None
        if check != _check(fields, broker, group, topic):
            raise _invalid(f"it was not given to group {group!r} for topic {topic!r}")
        return cls(name, queue_id, queue_offset, generation, deadline_ms)


def _check(fields: bytes, broker: bytes, group: str, topic: str) -> int:
    return crc32(f"{group}\n{topic}\n".encode(), crc32(broker, crc32(fields)))


def _invalid(reason: str) -> MessagingError:
    return MessagingError(definition_pb2.INVALID_RECEIPT_HANDLE, f"the receipt handle can't be used: {reason}")
