"""Fields of a request, read where they stand in its bytes: for ordinary calls, of which protobuf's objects would
cost more than all the rest. Whatever is not ordinary is left to those who read it so and say what is wrong.
"""

from functools import lru_cache

from ternmq_protos.v2 import definition_pb2

# More than any name that is allowed, so that little is kept for names that are refused.
_RESOURCE_BYTES_MAX = 1024


class NotOrdinary(Exception):
    """The request is not one of the ordinary ones that are read from their bytes; protobuf decodes it."""


def content_span(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the content of a field begins whose length stands there, and where it ends: at `end` at the latest."""
    length = data[at]
    at += 1
    if length >= 0x80:
        length, at = read_number(data, at - 1)
    if at + length > end:
        raise NotOrdinary
    return at, at + length


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, of six bytes at most, and where it ends."""
    value = 0
    for shift in range(0, 42, 7):
        part = data[at]
        at += 1
        value |= (part & 0x7F) << shift
        if part < 0x80:
            return value, at
    raise NotOrdinary


def resource_name(resource: bytes) -> str:
    """The name in a serialized Resource; DecodeError if it is none."""
    if len(resource) > _RESOURCE_BYTES_MAX:
        raise NotOrdinary
    return _resource_name(resource)


@lru_cache(1024)
def _resource_name(resource: bytes) -> str:
    return definition_pb2.Resource.FromString(resource).name
