"""One stream of messages as the machine keeps it; shells derive theirs from it."""

from typing import Final

from ternmq_rpc.grpc_http2.messages import MessageReader
from ternmq_rpc.grpc_http2.outflow import OutStream

# Less than the window of a connection, so that an unread stream does not stop the others.
STREAM_WINDOW: Final = 16 << 20


class WireStream(OutStream):
    """The state of a stream. `window`: what the peer may still send; `held_bytes`: received bytes that count against
    the budgets; `request_began`: when its request did, in the machine's time; `has_headers`: the headers of the answer
    were sent, or received; `expected_bytes`: bytes that `content-length` still promises; `status` and `details`:
    the status that the peer sent, and its text; a stream that is `is_refused` was not looked at by the peer, one that
    is `is_forgotten` is not known to the machine any more.

    Credit   bytes of messages are given back to the peer's window when they are read. Those of an unfinished message at
             the head of the queue are given back as they arrive (`early_bytes`), else one larger than the window would
             never end.
    Held     until they are read if the stream is a conversation (`is_conversation`), else until it ends: a request is
             in memory
             while it is served.
    """

    __slots__ = (
        "details",
        "early_bytes",
        "expected_bytes",
        "has_headers",
        "held_bytes",
        "incoming",
        "is_conversation",
        "is_ended_here",
        "is_ended_there",
        "is_forgotten",
        "is_refused",
        "owed_bytes",
        "request_began",
        "status",
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
        self.held_bytes = 0
        self.early_bytes = 0
        self.owed_bytes = 0
        self.request_began = 0.0
        self.has_headers = False
        self.expected_bytes: int | None = None
        self.status: int | None = None
        self.details = ""
        self.is_refused = False
        self.is_conversation = False
        self.is_ended_here = False
        self.is_ended_there = False
        self.is_forgotten = False

    @property
    def has_partial(self) -> bool:
        """Whether a message has begun and is not complete."""
        return self.incoming.partial > 0

    @property
    def transfer_progress(self) -> tuple[int, int]:
        """How many bytes of an incomplete message were received, and how many wait to be sent. While these change the
        peer is alive, however long a message takes."""
        return self.incoming.partial, self.out_bytes
