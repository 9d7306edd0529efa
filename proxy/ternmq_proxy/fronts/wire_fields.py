"""Reads fields directly from bytes in protobuf's form, for ordinary messages and calls, where protobuf's objects would
cost more than everything else. Anything else is left to protobuf, which also finds what is wrong with it."""


class NotOrdinary(Exception):
    """The bytes are not in the form that is read directly; protobuf decodes them."""


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
