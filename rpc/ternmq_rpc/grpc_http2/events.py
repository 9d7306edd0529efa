"""The events that a machine returns to its shell: a kind, the stream (None for the connection itself), and a text."""

from enum import IntEnum, auto


class EventKind(IntEnum):
    """Kinds of events; a stream's events come in the order in which the other side caused them."""

    GREETED = auto()
    """The other side speaks HTTP/2."""
    STARTED = auto()
    """A call was opened; its headers are there."""
    MESSAGES = auto()
    """Whole messages wait in the stream."""
    ENDED = auto()
    """The other side has ended the stream in order; messages may still wait."""
    BROKEN = auto()
    """The stream has failed; the text says why, the stream's `status` is what the other side sent."""
    LEAVING = auto()
    """The other side accepts no further streams."""
