"""One stream of messages as the machine keeps it; shells derive theirs from it."""

from ternmq_rpc.grpc_http2.budgets import STREAM_WINDOW
from ternmq_rpc.grpc_http2.messages import MessageReader
from ternmq_rpc.grpc_http2.outflow import OutStream


class WireStream(OutStream):
    """The state of a stream. `window`: what the peer may still send; `held`: received bytes that count against the
    budgets; `began`: when its request did, in the machine's time; `begun`: the headers of the answer were sent, or
    received; `expected`: bytes that `content-length` still promises; a stream that is `gone` is not known to the
    machine any more.

    Credit   bytes of messages are given back to the peer's window when they are read. Those of an unfinished message at
             the head of the queue are given back as they arrive (`early`), else one larger than the window would never
             end.
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
        # Not by super(): one is created for each call.
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
        """Whether a message has begun and is not complete."""
        return self.incoming.partial > 0

    @property
    def under_way(self) -> tuple[int, int]:
        """How many bytes of an incomplete message were received, and how many wait to be sent. While these change the
        peer is alive, however long a message takes."""
        return self.incoming.partial, self.out_bytes
