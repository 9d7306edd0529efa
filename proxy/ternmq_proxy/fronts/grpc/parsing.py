"""Parses a large request in pieces, so that other tasks get turns in between.

The bytes of a message, cut between two fields, are two messages whose merge is the whole message: the format guarantees
it. A single field, such as a message with its body, stays whole.
"""

from typing import TYPE_CHECKING, Any, Final

from ternmq_common.event_loop.fairness import WorkTurns, wait_for_turn
from ternmq_common.limits import KIB
from ternmq_proxy.fronts.grpc.field_count import field_end
from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.grpc_stream.served_call import CallRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

# Parsed within two milliseconds, or five for a message built to take long.
PIECE_BYTES: Final = 64 * KIB


async def parse_in_pieces(kind: Any, data: bytes, piece_bytes: int = PIECE_BYTES) -> Any:  # noqa: ANN401 - a message
    """Parse like `kind.FromString(data)`; raises DecodeError."""
    request = kind()
    await wait_for_turn()
    turns = WorkTurns()
    for piece in _split_pieces(data, piece_bytes):
        request.MergeFromString(piece)
        await turns.next_turn()
    return request


def _split_pieces(data: bytes, piece_bytes: int) -> "Iterator[bytes]":
    start = at = 0
    while at < len(data):
        end = field_end(data, at)
        if end is None:  # it is broken here, or is a group; the parser decides
            at = len(data)
        elif end - start > piece_bytes and at > start:
            yield data[start:at]
            start = at
        at = end if end is not None else at
    yield data[start:]


def invalid_message(kind: Any) -> CallRefused:  # noqa: ANN401 - a message class
    """Return the refusal of bytes that don't parse."""
    return CallRefused(GrpcStatus.INTERNAL, f"the bytes sent are no {kind.DESCRIPTOR.name}")
