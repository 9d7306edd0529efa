"""The answer to a send that stored all messages, serialized by hand: of no other are so many made."""

from typing import TYPE_CHECKING

from ternmq_common.wire import framed, varint
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.model import NewMessage

_STATUS = framed(b"\x0a", OK.SerializeToString())  # SendMessageResponse.status = 1, SendResultEntry.status = 1
_ENTRY_TAG = b"\x12"  # SendMessageResponse.entries = 2
_MESSAGE_ID_TAG = b"\x12"  # SendResultEntry.message_id = 2
_TRANSACTION_ID_TAG = b"\x1a"  # SendResultEntry.transaction_id = 3
_OFFSET_TAG = b"\x20"  # SendResultEntry.offset = 4


def sent(messages: "Sequence[NewMessage]", first: int) -> bytes:
    """A serialized `SendMessageResponse`; `first` is the queue offset of the first message. A transaction id is given
    for any message, since clients show it: its message id."""
    return sent_apart(messages, range(first, first + len(messages)))


def sent_apart(messages: "Sequence[NewMessage]", offsets: "Sequence[int]") -> bytes:
    """The same of messages that were stored in several queues, at these offsets."""
    parts = [_STATUS]
    for message, offset in zip(messages, offsets, strict=True):
        coded = message.keys[0].encode()
        size = varint(len(coded))
        fields = b"".join((_STATUS, _MESSAGE_ID_TAG, size, coded, _TRANSACTION_ID_TAG, size, coded))
        if offset:
            fields += _OFFSET_TAG + varint(offset)
        parts += (_ENTRY_TAG, varint(len(fields)), fields)
    return b"".join(parts)
