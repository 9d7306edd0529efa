"""The answer to an acknowledgement that settled all it named, serialized by hand: nearly every one does."""

from typing import TYPE_CHECKING

from ternmq_common.wire import framed, varint
from ternmq_proxy.activities.status import OK

if TYPE_CHECKING:
    from collections.abc import Sequence

_OK = OK.SerializeToString()
_STATUS = framed(b"\x0a", _OK)  # AckMessageResponse.status = 1
_ENTRY_TAG = b"\x12"  # AckMessageResponse.entries = 2
_MESSAGE_ID_TAG = b"\x0a"  # AckMessageResultEntry.message_id = 1
_HANDLE_TAG = b"\x12"  # AckMessageResultEntry.receipt_handle = 2
_ENTRY_STATUS = framed(b"\x1a", _OK)  # AckMessageResultEntry.status = 3


def all_settled(entries: "Sequence[tuple[str, str]]") -> bytes:
    """A serialized `AckMessageResponse`; of each entry the message id and the receipt handle, as they were asked."""
    parts = [_STATUS]
    for message_id, handle in entries:
        coded_id, coded_handle = message_id.encode(), handle.encode()
        id_size, handle_size = varint(len(coded_id)), varint(len(coded_handle))
        size = 2 + len(id_size) + len(coded_id) + len(handle_size) + len(coded_handle) + len(_ENTRY_STATUS)
        parts += (
            _ENTRY_TAG,
            varint(size),
            _MESSAGE_ID_TAG,
            id_size,
            coded_id,
            _HANDLE_TAG,
            handle_size,
            coded_handle,
            _ENTRY_STATUS,
        )
    return b"".join(parts)
