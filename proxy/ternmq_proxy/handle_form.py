"""A receipt handle as opaque text that any proxy can read, and that only proxies can create.

Text: the version `2`, then base64url of the packed fields with their tag, then that of the broker's name. For a lite
topic's message a dot and the lite topic's name follow: not every client repeats the name when it settles the message.

    queue_id u16 | queue_offset u64 | generation u64 | deadline_ms u64 | tag: key's number u8, MAC 9 bytes

Little-endian; `receipt_handle` says what they mean, `handle_keys` what a tag is. The MAC covers the fields, the group,
the topic and the broker's name: a handle that was guessed, changed or given to another group is refused instead of
settling a stranger's message. Version 1 had a checksum that anybody could compute, and is refused.
"""

import binascii
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

from librt.strings import BytesWriter

from ternmq_common.binary.numbers import read_u16_le, read_u64_le, write_u16_le, write_u64_le
from ternmq_common.catalog.handle_keys import MAC_BYTES, HandleKeys
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import is_lite_queue, lite_name
from ternmq_common.shard.receipt_handle import ReceiptHandle

_VERSION: Final = b"2"
_KIND: Final = b"ternmq receipt"
_OFFSET_AT: Final = 2
_GENERATION_AT: Final = 10
_DEADLINE_AT: Final = 18
_FIELDS_BYTES: Final = 26
_MAC_AT: Final = _FIELDS_BYTES + 1
_PACKED_BYTES: Final = _MAC_AT + MAC_BYTES
# Packed fields fill base64's characters without a rest, so the broker's name is text of its own behind them.
_BROKER_AT: Final = 1 + _PACKED_BYTES // 3 * 4
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
# Each character of a handle has one spelling.
_FROM_URL: Final = bytes.maketrans(b"-_+/", b"+/!!")
_PADDING: Final = (b"", b"===", b"==", b"=")
_LITE_MARK: Final = "."


def lite_name_in(text: str) -> str:
    """The name of a lite topic at the end of a handle, whether or not the handle is valid; empty if there is none."""
    return text.partition(_LITE_MARK)[2]


class HandleForm:
    """Encodes and decodes the handles of one group and topic; see the module. Neither name has a line break."""

    __slots__ = (
        "_accepted",
        "_belongs",
        "_bound",
        "_broker",
        "_broker_text",
        "_end",
        "_group",
        "_number",
        "_secret",
        "_topic",
    )

    def __init__(self, group: str, topic: str, keys: HandleKeys) -> None:
        self._group = group
        self._topic = topic
        self._number = keys.number
        self._secret = keys.secret
        self._accepted = keys.accepted
        self._belongs = f"{group}\n{topic}\n".encode()
        self._end = f"{_LITE_MARK}{lite_name(topic)}".encode() if is_lite_queue(topic) else b""
        # Of the last handle's broker, which is mostly the next one's too.
        self._broker = ""
        self._broker_text = self._end
        self._bound = self._belongs

    def encode_handle(self, handle: ReceiptHandle) -> bytes:
        """Encode the handle as ASCII."""
        writer = BytesWriter()
        write_u16_le(writer, handle.queue_id)
        write_u64_le(writer, handle.queue_offset)
        write_u64_le(writer, handle.generation)
        write_u64_le(writer, handle.deadline_ms)
        fields = writer.getvalue()
        if handle.broker != self._broker:
            broker = handle.broker.encode()
            self._remember_broker(handle.broker, _encode_broker(broker) + self._end, self._belongs + broker)
        mac = blake2b(fields + self._bound, digest_size=MAC_BYTES, key=self._secret, person=_KIND).digest()
        packed = binascii.b2a_base64(fields + self._number + mac, newline=False)
        return _VERSION + packed.translate(_TO_URL) + self._broker_text

    def decode_handle(self, text: str) -> ReceiptHandle:
        """Decode `text`; INVALID_RECEIPT_HANDLE if it is no handle for this group and topic."""
        try:
            coded = text.encode("ascii")
        except UnicodeEncodeError:
            raise _handle_error("it does not parse") from None
        return self.decode_ascii(coded)

    def decode_ascii(self, coded: bytes) -> ReceiptHandle:
        """Decode a handle like `decode_handle`, from text that is known to be ASCII."""
        if not coded.startswith(_VERSION):
            raise _handle_error("it is empty or of another version")
        broker_text = coded[_BROKER_AT:]
        broker, bound = self._broker, self._bound
        try:
            packed = binascii.a2b_base64(coded[1:_BROKER_AT].translate(_FROM_URL), strict_mode=True)
            queue_id, queue_offset = read_u16_le(packed, 0), read_u64_le(packed, _OFFSET_AT)
            generation, deadline_ms = read_u64_le(packed, _GENERATION_AT), read_u64_le(packed, _DEADLINE_AT)
            if broker_text != self._broker_text:
                name = _decode_broker(broker_text, self._end)
                broker, bound = name.decode(), self._belongs + name
        except (binascii.Error, IndexError, ValueError):
            raise _handle_error("it does not parse") from None
        secret = self._accepted.get(packed[_FIELDS_BYTES:_MAC_AT])
        if secret is None:
            raise _handle_error("its key is not accepted any more, or never was")
        mac = blake2b(packed[:_FIELDS_BYTES] + bound, digest_size=MAC_BYTES, key=secret, person=_KIND).digest()
        if not compare_digest(mac, packed[_MAC_AT:]):
            raise _handle_error(f"it was not given to group {self._group!r} for topic {self._topic!r}")
        if broker_text != self._broker_text:
            self._remember_broker(broker, broker_text, bound)
        return ReceiptHandle(broker, queue_id, queue_offset, generation, deadline_ms)

    def _remember_broker(self, broker: str, text: bytes, bound: bytes) -> None:
        self._broker, self._broker_text, self._bound = broker, text, bound


def _encode_broker(broker: bytes) -> bytes:
    return binascii.b2a_base64(broker, newline=False).translate(_TO_URL).rstrip(b"=")


def _decode_broker(text: bytes, end: bytes) -> bytes:
    """Decode the broker's name before `end`. ValueError for an invalid or differently spelled text."""
    if not text.endswith(end):
        raise ValueError("it is of another lite topic, or of none")
    text = text.removesuffix(end)
    broker = binascii.a2b_base64(text.translate(_FROM_URL) + _PADDING[len(text) & 3], strict_mode=True)
    if _encode_broker(broker) != text:
        raise ValueError("it is spelled otherwise")
    return broker


def _handle_error(reason: str) -> MessagingError:
    return MessagingError(ErrorCode.INVALID_RECEIPT_HANDLE, f"the receipt handle can't be used: {reason}")
