"""What a client may say in order, as frames: where mutations begin."""

import random
from typing import TYPE_CHECKING

import hpack

from tests.support import http2_wire as h2
from tests.support.http2_wire import Frame, Kind, Setting

if TYPE_CHECKING:
    from collections.abc import Callable

UNARY, TALK = "/test/Echo", "/test/Talk"
_PATHS = (UNARY, UNARY, UNARY, TALK, TALK, "/test/Nobody", "/")
_SIZES = (0, 1, 5, 100, 1000, 16_379, 16_384, 40_000)
_MORE_FIELDS = (
    ("grpc-timeout", "1S"),
    ("grpc-timeout", "100m"),
    ("user-agent", "fuzz/1"),
    ("x-mq-client-id", "a client"),
    ("trace-bin", "AAECAw=="),
    ("content-length", "5"),
    ("cookie", "a=b"),
)


class Conversation:
    """Makes the frames of one client; `frames` has them, without the preface."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._encoder = hpack.Encoder()
        self._next = 1
        self._open: list[int] = []
        self.frames: list[Frame] = []

    def write(self) -> list[Frame]:
        self._settings()
        steps: list[Callable[[], None]] = [
            *[self._unary] * 6,
            *[self._talk] * 4,
            *[self._go_on] * 6,
            self._settings,
            self._acknowledge,
            self._ping,
            self._window,
            self._priority,
            self._reset,
            self._unknown,
        ]
        for _ in range(self._dice.randint(1, 8)):
            self._dice.choice(steps)()
        if not self._dice.randrange(20):
            self.frames.append(Frame(Kind.GOAWAY, 0, 0, bytes(8)))
        return self.frames

    # --- calls

    def _unary(self) -> None:
        stream = self._headers()
        messages = [h2.message(self._body()) for _ in range(self._dice.choice((1, 1, 1, 1, 0, 2)))]
        self._data(stream, b"".join(messages), end_stream=True)

    def _talk(self) -> None:
        stream = self._headers()
        self._open.append(stream)
        self._data(stream, h2.message(self._body()), end_stream=False)

    def _go_on(self) -> None:
        if not self._open:
            self._talk()
            return
        stream = self._dice.choice(self._open)
        ends = not self._dice.randrange(3)
        if ends:
            self._open.remove(stream)
        self._data(stream, h2.message(self._body()), end_stream=ends)

    def _headers(self) -> int:
        stream, self._next = self._next, self._next + 2
        more = [self._dice.choice(_MORE_FIELDS) for _ in range(self._dice.choice((0, 0, 1, 2)))]
        fields = h2.call_fields(self._dice.choice(_PATHS), *more)
        if self._dice.randrange(2):
            block = h2.block(fields)
        else:
            block = self._encoder.encode(fields, huffman=bool(self._dice.randrange(2)))
        self._block(stream, block)
        return stream

    def _block(self, stream: int, block: bytes) -> None:
        flags, payload = 0, block
        cut = len(block)
        if not self._dice.randrange(6):
            cut = self._dice.randint(0, len(block))
            payload = block[:cut]
        else:
            flags = h2.END_HEADERS
        if not self._dice.randrange(8):
            flags, payload = flags | h2.PRIORITIZED, bytes(5) + payload
        if not self._dice.randrange(8):
            padding = self._dice.randrange(10)
            flags, payload = flags | h2.PADDED, bytes((padding,)) + payload + bytes(padding)
        self.frames.append(Frame(Kind.HEADERS, flags, stream, payload))
        if not flags & h2.END_HEADERS:
            self.frames.append(Frame(Kind.CONTINUATION, h2.END_HEADERS, stream, block[cut:]))

    def _data(self, stream: int, data: bytes, *, end_stream: bool) -> None:
        size = self._dice.choice((h2.DEFAULT_FRAME_MAX, h2.DEFAULT_FRAME_MAX, 7, 1000))
        parts = [data[at : at + size] for at in range(0, min(len(data), 20 * size), size)] or [b""]
        for number, part in enumerate(parts, 1):
            flags = h2.END_STREAM if end_stream and number == len(parts) else 0
            if self._dice.randrange(10):
                self.frames.append(Frame(Kind.DATA, flags, stream, part))
            else:
                padded = b"\x03" + part + bytes(3)
                self.frames.append(Frame(Kind.DATA, flags | h2.PADDED, stream, padded))

    def _body(self) -> bytes:
        return bytes(self._dice.choice(_SIZES) if not self._dice.randrange(4) else self._dice.randrange(50))

    # --- the rest

    def _settings(self) -> None:
        values = {
            Setting.INITIAL_WINDOW_SIZE: self._dice.choice((0, 1, 65_535, 65_535, 1 << 20, h2.WINDOW_MAX)),
            Setting.MAX_FRAME_SIZE: self._dice.choice((16_384, 16_384, 1 << 20)),
            Setting.HEADER_TABLE_SIZE: self._dice.choice((0, 4096)),
        }
        chosen = {name: value for name, value in values.items() if self._dice.randrange(2)}
        self.frames.append(Frame(Kind.SETTINGS, 0, 0, h2.settings(chosen)[h2.HEADER_BYTES :]))

    def _acknowledge(self) -> None:
        self.frames.append(Frame(Kind.SETTINGS, h2.ACK, 0, b""))

    def _ping(self) -> None:
        self.frames.append(Frame(Kind.PING, self._dice.choice((0, 0, h2.ACK)), 0, bytes(8)))

    def _window(self) -> None:
        stream = self._dice.choice((0, 0, max(1, self._next - 2)))
        if stream == 0 or self._next > 1:
            increment = self._dice.choice((1, 1000, 1 << 20, 1 << 30))
            self.frames.append(Frame(Kind.WINDOW_UPDATE, 0, stream, h2.u32(increment)))

    def _priority(self) -> None:
        self.frames.append(Frame(Kind.PRIORITY, 0, self._next, bytes(5)))

    def _reset(self) -> None:
        if self._open:
            stream = self._open.pop(self._dice.randrange(len(self._open)))
            self.frames.append(Frame(Kind.RST_STREAM, 0, stream, h2.u32(8)))

    def _unknown(self) -> None:
        self.frames.append(Frame(self._dice.randint(10, 255), 0, self._next, bytes(self._dice.randrange(20))))
