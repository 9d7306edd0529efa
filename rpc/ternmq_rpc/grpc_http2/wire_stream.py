"""One stream of messages, as the machine keeps it; shells make of it what their callers use."""

from ternmq_rpc.grpc_http2.budgets import STREAM_WINDOW
from ternmq_rpc.grpc_http2.messages import MessageReader
from ternmq_rpc.grpc_http2.outflow import OutStream


class WireStream(OutStream):
    """`window` is what the other side may still send, `held` what has come and counts against the budgets; `began` is
    when its request did, in the machine's time; `begun` says that the headers of the answer are sent, or have come;
    `expected` are bytes that `content-length` still promises; of a stream that is `gone` the machine knows nothing.

    Credit   bytes of messages are given back to the other side's window when they are read. Those of an unfinished
             message at the head of the queue are given back as they come (`early`), else one that is larger than the
             window would never end.
    Held     until they are read if the stream is a conversation (`talks`), else until it ends: a request is in memory
             while it is served.
    """

    __slots__ = (
        "began",
        "begun",
        "early",
        "ended_here",
        "ended_there",
        "expected",
        "gone",
        "held",
        "incoming",
        "owed",
        "status",
        "talks",
        "window",
    )

    def __init__(self, number: int, out_window: int, *, message_max: int) -> None:
        # Not by super(): one is made for each call.
        self.number = number
        self.out_window = out_window
        self.out_bytes = 0
        self.in_line = False
        self.tail = None
        self._pieces = None
        self.incoming = MessageReader(message_max)
        self.window = STREAM_WINDOW
        self.held = 0
        self.early = 0
        self.owed = 0
        self.began = 0.0
        self.begun = False
        self.expected: int | None = None
        self.status: int | None = None
        self.talks = False
        self.ended_here = False
        self.ended_there = False
        self.gone = False

    @property
    def unfinished(self) -> bool:
        """Whether a message has begun and not come whole."""
        return self.incoming.partial > 0

    @property
    def under_way(self) -> tuple[int, int]:
        """How many bytes of a message that is not whole yet have come, and how many wait to be sent: the other side is
        there while these change, though it may take long until a message is whole."""
        return self.incoming.partial, self.out_bytes
