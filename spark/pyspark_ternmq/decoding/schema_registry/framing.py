"""Confluent's wire format: a zero byte, four bytes of the schema's id, and for Protobuf which of the messages in its
file it is: the number of indexes, then each, or a single 0 for the first message of all; then the body.
"""

from pyspark_ternmq.decoding.limits import DEPTH_MAX, BrokenBody
from pyspark_ternmq.decoding.varints import read_long

HEADER_BYTES = 5


def schema_id(body: bytes) -> int:
    """The id in front of a body; BrokenBody without one."""
    if len(body) < HEADER_BYTES or body[0] != 0:
        raise BrokenBody("it has no schema id: a zero byte and four of the id are missing")
    return int.from_bytes(body[1:HEADER_BYTES], "big")


def message_indexes(body: bytes) -> tuple[tuple[int, ...], int]:
    """Read the indexes of the message type, from the file's messages inwards, and the offset of the message."""
    try:
        count, at = read_long(body, HEADER_BYTES)
        if count == 0:
            return (0,), at
        if not 0 < count <= DEPTH_MAX:
            raise BrokenBody(f"it has {count} message indexes")
        indexes = []
        for _ in range(count):
            index, at = read_long(body, at)
            indexes.append(index)
    except IndexError:
        raise BrokenBody("it ends too early") from None
    return tuple(indexes), at
