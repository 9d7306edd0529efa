"""A client's bytes, and a server's machine that takes them: no network, no loop, and a clock that the test moves."""

from typing import TYPE_CHECKING

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import FrameReader, SettingId
from ternmq_rpc.grpc_http2.headers.header_reader import HeaderReader
from ternmq_rpc.grpc_http2.headers.literal_headers import NO_TABLE, literal_block
from ternmq_rpc.grpc_http2.messages import PREFIX
from ternmq_rpc.grpc_http2.server_machine import ServerMachine
from ternmq_rpc.grpc_http2.wire_stream import WireStream
from ternmq_rpc.serving.budgets import BudgetLedger, ConnectionBudgets

if TYPE_CHECKING:
    from ternmq_rpc.grpc_http2.events import EventKind

GREETING = h2.PREFACE + h2.settings_frame({SettingId.INITIAL_WINDOW_SIZE: 1 << 20}) + h2.window_frame(0, 1 << 30)
CALL = ((":method", "POST"), (":scheme", "http"), (":path", "/test/Call"), ("content-type", "application/grpc"))


def headers(stream: int, *more: tuple[str, str], call: tuple[tuple[str, str], ...] = CALL, end: bool = False) -> bytes:
    block = NO_TABLE + literal_block((*call, *more))
    return h2.header_frames(stream, block, h2.DEFAULT_FRAME_MAX, end_stream=end)


def data(stream: int, message: bytes, *, end: bool = True) -> bytes:
    content = PREFIX.pack(0, len(message)) + message
    frames = [content[at : at + h2.DEFAULT_FRAME_MAX] for at in range(0, len(content), h2.DEFAULT_FRAME_MAX)]
    last = len(frames) - 1
    return b"".join(
        h2.encode_frame(h2.DATA, h2.END_STREAM if end and number == last else 0, stream, part)
        for number, part in enumerate(frames)
    )


class Served:
    """The server's end; `events` are those that were told, `now` is the time."""

    def __init__(
        self, budgets: ConnectionBudgets | None = None, *, ledger: BudgetLedger | None = None, greeted: bool = True
    ) -> None:
        self.now = 100.0
        self.events: list[tuple[EventKind, int, str]] = []
        self.ledger = ledger or BudgetLedger()
        reader = HeaderReader(("content-type", "x-mq-client-id"))
        self.machine: ServerMachine[WireStream] = ServerMachine(
            lambda number, window, _: WireStream(number, window, message_max=self.machine.budgets.message_bytes_max),
            reader,
            budgets or ConnectionBudgets(),
            self.ledger,
            self.now,
        )
        self.frames: list[tuple[int, int, int, bytes]] = []
        self._reader = FrameReader((1 << 24) - 1)
        if greeted:
            self.hear(GREETING)

    def hear(self, *sent: bytes) -> "Served":
        """Take bytes, to their end or that of the connection, and send what is to be sent."""
        pieces = [b"".join(sent)]
        while pieces or self.machine.has_backlog:
            for event, stream, text in self.machine.receive_bytes(pieces.pop() if pieces else b"", self.now):
                self.events.append((event, 0 if stream is None else stream.number, text))
        self.send()
        return self

    def send(self) -> None:
        while buffers := self.machine.take_output(1 << 20):
            for kind, flags, stream, start, stop in self._reader.read_frames(b"".join(buffers)):
                self.frames.append((kind, flags, stream, self._reader.data[start:stop]))

    def said(self, kind: int) -> list[tuple[int, bytes]]:
        """Stream and payload of each frame of that kind that was sent."""
        return [(stream, payload) for each, _, stream, payload in self.frames if each == kind]

    @property
    def resets(self) -> dict[int, int]:
        """Codes by streams."""
        return {stream: h2.read_u32(payload, "") for stream, payload in self.said(h2.RST_STREAM)}

    @property
    def goaway(self) -> int | None:
        """Why the connection was ended."""
        said = self.said(h2.GOAWAY)
        return h2.read_goaway(said[-1][1])[1] if said else None

    @property
    def statuses(self) -> dict[int, str]:
        """gRPC's statuses by streams."""
        found = {}
        for stream, payload in self.said(h2.HEADERS):
            at = payload.find(b"grpc-status")
            if at >= 0:
                start = at + len("grpc-status")
                found[stream] = payload[start + 1 : start + 1 + payload[start]].decode()
        return found
