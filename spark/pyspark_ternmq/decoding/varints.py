"""Numbers as Avro and Confluent's headers have them: zigzag, seven bits a byte, the lowest first."""

from pyspark_ternmq.decoding.limits import BrokenBody

VARINT_BYTES_MAX = 10


def read_long(body: bytes, at: int) -> tuple[int, int]:
    """A zigzag number and where it ends; IndexError at the body's end."""
    byte = body[at]
    value, shift, end = byte & 0x7F, 7, at + 1
    while byte >= 0x80:
        byte = body[end]
        value |= (byte & 0x7F) << shift
        shift += 7
        end += 1
        if end - at > VARINT_BYTES_MAX:
            raise BrokenBody("a number has more than 64 bits")
    if value >> 64:
        raise BrokenBody("a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), end
