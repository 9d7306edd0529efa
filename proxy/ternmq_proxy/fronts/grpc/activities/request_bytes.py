"""Reads fields of a request directly from its bytes, for ordinary calls, where protobuf's objects would cost more than
everything else. Any other request is left to protobuf, which also finds what is wrong with it."""

from functools import lru_cache

from ternmq_protos.v2 import definition_pb2

# Longer than any legal name, so that little is remembered for names that are refused.
_RESOURCE_BYTES_MAX = 1024


class NotOrdinary(Exception):
    """The request is not one of the ordinary ones that are read from their bytes; protobuf decodes it."""


def content_span(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return where the content of a field begins and ends, given the position of its length; it ends at `end` at the
    latest."""
    length = data[at]
    at += 1
    if length >= 0x80:
        length, at = read_number(data, at - 1)
    if at + length > end:
        raise NotOrdinary
    return at, at + length


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at this position, of at most six bytes, and where it ends."""
    value = 0
    for shift in range(0, 42, 7):
        part = data[at]
        at += 1
        value |= (part & 0x7F) << shift
        if part < 0x80:
            return value, at
    raise NotOrdinary


def resource_name(resource: bytes) -> str:
    """Return the name in a serialized Resource. Raises DecodeError."""
    if len(resource) > _RESOURCE_BYTES_MAX:
        raise NotOrdinary
    return _resource_name(resource)


@lru_cache(1024)
def _resource_name(resource: bytes) -> str:
    return definition_pb2.Resource.FromString(resource).name
