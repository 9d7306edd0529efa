"""What a machine tells its shell: a kind, the stream that it is about (none for the connection itself), and a text."""

from enum import IntEnum, auto


class Event(IntEnum):
    """Kinds of events; a stream's events come in the order in which the other side caused them."""

    GREETED = auto()
    """The other side speaks HTTP/2."""
    STARTED = auto()
    """A call was opened; its headers are there."""
    MESSAGES = auto()
    """Whole messages wait in the stream."""
    ENDED = auto()
    """The other side has ended the stream in order; messages may wait."""
    BROKEN = auto()
    """The stream is no more; the text says why, the stream's `status` what the other side said."""
    LEAVING = auto()
    """The other side takes no further streams."""
