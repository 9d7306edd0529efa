"""A receipt handle as opaque text that any proxy can serve.

Text: the version `1`, then base64url of the packed fields and of the broker's name.

    queue_id u16 | queue_offset u64 | generation u64 | deadline_ms u64 | check u32 | broker's name, UTF-8

Little-endian; `receipt_handle` says what they mean. `check` is the crc32 of all other fields with the group and the
topic, so a handle that was garbled or that belongs elsewhere is refused instead of settling a stranger's message.
"""

import binascii
import struct
from functools import lru_cache
from zlib import crc32

from ternmq_common.errors import MessagingError
from ternmq_common.receipt_handle import ReceiptHandle
from ternmq_protos.v2 import definition_pb2

_VERSION = b"1"
_FIELDS = struct.Struct("<HQQQ")
_FIELDS_BYTES = _FIELDS.size
_CHECK = struct.Struct("<I")
_CHECKED = struct.Struct("<HQQQI")
_CHECKED_BYTES = _CHECKED.size
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")
_PADDING = (b"", b"===", b"==", b"=")
_FORMS_MAX = 1024


class HandleForm:
    """The handles of one group and topic as text; see `handle_form`."""

    __slots__ = ("_belongs", "_broker", "_broker_end", "_broker_name", "_group", "_topic")

    def __init__(self, group: str, topic: str) -> None:
        self._group = group
        self._topic = topic
        self._belongs = f"{group}\n{topic}\n".encode()
        # Of the broker that the last one named, mostly that of the next one too.
        self._broker_name = ""
        self._broker = b""
        self._broker_end = self._belongs

    def encode(self, handle: ReceiptHandle) -> bytes:
        """The text, which is ASCII."""
        fields = _FIELDS.pack(handle.queue_id, handle.queue_offset, handle.generation, handle.deadline_ms)
        if handle.broker != self._broker_name:
            self._names(handle.broker, handle.broker.encode())
        check = crc32(self._broker_end, crc32(fields))
        text = binascii.b2a_base64(fields + _CHECK.pack(check) + self._broker, newline=False)
        return _VERSION + text.translate(_TO_URL).rstrip(b"=")

    def decode(self, text: str) -> ReceiptHandle:
        """The handle of `text`, or INVALID_RECEIPT_HANDLE if it isn't one for this group and topic."""
        try:
            coded = text.encode("ascii")
        except UnicodeEncodeError:
            raise _invalid("it does not parse") from None
        return self.decode_ascii(coded)

    def decode_ascii(self, coded: bytes) -> ReceiptHandle:
        """As `decode`, of text that was found to be ASCII."""
        if not coded.startswith(_VERSION):
            raise _invalid("it is empty or of another version")
        try:
            packed = binascii.a2b_base64(coded[1:].translate(_FROM_URL) + _PADDING[(len(coded) - 1) & 3])
            queue_id, queue_offset, generation, deadline_ms, check = _CHECKED.unpack_from(packed)
            broker = packed[_CHECKED_BYTES:]
            if broker != self._broker:
                self._names(broker.decode(), broker)
        except (binascii.Error, struct.error, ValueError):
            raise _invalid("it does not parse") from None
        if check != crc32(self._broker_end, crc32(packed[:_FIELDS_BYTES])):
            raise _invalid(f"it was not given to group {self._group!r} for topic {self._topic!r}")
        return ReceiptHandle(self._broker_name, queue_id, queue_offset, generation, deadline_ms)

    def _names(self, name: str, broker: bytes) -> None:
        self._broker_name, self._broker, self._broker_end = name, broker, broker + self._belongs


@lru_cache(_FORMS_MAX)
def handle_form(group: str, topic: str) -> HandleForm:
    """That of the group's handles for the topic; those that were used last are kept."""
    return HandleForm(group, topic)


def _invalid(reason: str) -> MessagingError:
    return MessagingError(definition_pb2.INVALID_RECEIPT_HANDLE, f"the receipt handle can't be used: {reason}")
