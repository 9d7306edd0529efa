"""Serializes the answer to a send that stored all messages by hand, since it is the most frequent answer."""

from typing import TYPE_CHECKING, Final

from ternmq_common.wire import encode_field, encode_varint
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import NewMessage

# SendMessageResponse.status = 1, SendResultEntry.status = 1.
_STATUS: Final = encode_field(b"\x0a", OK.SerializeToString())
_ENTRY_TAG: Final = b"\x12"  # SendMessageResponse.entries = 2
_MESSAGE_ID_TAG: Final = b"\x12"  # SendResultEntry.message_id = 2
_TRANSACTION_ID_TAG: Final = b"\x1a"  # SendResultEntry.transaction_id = 3
_OFFSET_TAG: Final = b"\x20"  # SendResultEntry.offset = 4


def serialize_sent(messages: "Sequence[NewMessage]", first: int) -> bytes:
    """Return a serialized `SendMessageResponse`; `first` is the queue offset of the first message. Every message gets a
    transaction id, which clients show: its message id."""
    return serialize_sent_apart(messages, range(first, first + len(messages)))


def serialize_half(message_id: str, transaction_id: str, offset: int) -> bytes:
    """Return a serialized `SendMessageResponse` for a stored half message."""
    entry = b"".join(
        (
            _STATUS,
            encode_field(_MESSAGE_ID_TAG, message_id.encode()),
            encode_field(_TRANSACTION_ID_TAG, transaction_id.encode()),
            _OFFSET_TAG + encode_varint(offset) if offset else b"",
        )
    )
    return _STATUS + encode_field(_ENTRY_TAG, entry)


def serialize_sent_apart(messages: "Sequence[NewMessage]", offsets: "Sequence[int]") -> bytes:
    """Return a serialized `SendMessageResponse` for messages that were stored in several queues, at these offsets."""
    parts = [_STATUS]
    id_bytes = place_bytes = -1
    before_id = before_transaction_id = b""
    for message, offset in zip(messages, offsets, strict=True):
        coded = message.keys[0].encode()
        place = _OFFSET_TAG + encode_varint(offset) if offset else b""
        if len(coded) != id_bytes or len(place) != place_bytes:  # nearly all entries of an answer have the same sizes
            id_bytes, place_bytes = len(coded), len(place)
            size = encode_varint(id_bytes)
            entry_bytes = len(_STATUS) + 2 * (1 + len(size) + id_bytes) + place_bytes
            before_id = b"".join((_ENTRY_TAG, encode_varint(entry_bytes), _STATUS, _MESSAGE_ID_TAG, size))
            before_transaction_id = _TRANSACTION_ID_TAG + size
        parts += (before_id, coded, before_transaction_id, coded, place)
    return b"".join(parts)
