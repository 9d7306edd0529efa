"""What a server may say, whatever its client said: HTTP/2 and gRPC, read by rules of our own and by hpack."""

import hpack

from tests.support import http2_wire as h2
from tests.support.http2_wire import Frame, FrameParser, Kind

_FRAME_MAX = (1 << 24) - 1
_CONNECTION_KINDS = (Kind.SETTINGS, Kind.PING, Kind.GOAWAY)
_OF_A_SERVER = frozenset(Kind) - {Kind.PUSH_PROMISE, Kind.PRIORITY}
_HEADER_LIST_MAX = 1 << 20


class WrongOutput(AssertionError):
    """The server broke a rule."""


class OutputRules:
    """Takes what a server sends, in pieces of any size; WrongOutput as soon as a rule is broken.

    Invariants: `begun` are streams with headers, `ended` those on which nothing but RST_STREAM may follow.
    """

    def __init__(self) -> None:
        self._parser = FrameParser()
        self._decoder = hpack.Decoder(max_header_list_size=_HEADER_LIST_MAX)
        self._first = True
        self._block: tuple[Frame, list[bytes]] | None = None
        self._reset = set[int]()
        self.begun = set[int]()
        self.ended = set[int]()
        self.last_words = False

    def feed(self, data: bytes) -> None:
        for frame in self._parser.feed(data):
            self._check(frame)

    def finish(self) -> None:
        """Nothing comes any more."""
        _must(not self._parser.unfinished, "the output ends within a frame")
        _must(self._block is None, "the output ends within a header block")

    def _check(self, frame: Frame) -> None:
        _must(frame.kind in _OF_A_SERVER, f"a frame of type {frame.kind}")
        _must(not self._first or (frame.kind == Kind.SETTINGS and not frame.flags), "SETTINGS are not the first frame")
        self._first = False
        if self._block is not None:
            _must(frame.kind == Kind.CONTINUATION and frame.stream == self._block[0].stream, "a block is broken off")
        if frame.kind in _CONNECTION_KINDS:
            _must(frame.stream == 0, f"type {frame.kind} on a stream")
        elif frame.kind != Kind.WINDOW_UPDATE:
            _must(frame.stream % 2 == 1, f"type {frame.kind} on stream {frame.stream}")
        {
            Kind.DATA: self._data,
            Kind.HEADERS: self._headers,
            Kind.CONTINUATION: self._continued,
            Kind.RST_STREAM: self._stream_reset,
            Kind.SETTINGS: self._settings,
            Kind.PING: self._ping,
            Kind.GOAWAY: self._goaway,
            Kind.WINDOW_UPDATE: self._window,
        }[Kind(frame.kind)](frame)

    def _data(self, frame: Frame) -> None:
        _must(frame.stream in self.begun and frame.stream not in self.ended, "DATA where none may be")
        _must(not frame.flags & h2.END_STREAM, "a call that ends without a status")

    def _headers(self, frame: Frame) -> None:
        _must(frame.stream not in self.ended, "headers after the end")
        self._block = (frame, [frame.payload])
        if frame.flags & h2.END_HEADERS:
            self._whole_block()

    def _continued(self, frame: Frame) -> None:
        _must(self._block is not None, "CONTINUATION of nothing")
        assert self._block is not None
        self._block[1].append(frame.payload)
        if frame.flags & h2.END_HEADERS:
            self._whole_block()

    def _whole_block(self) -> None:
        assert self._block is not None
        frame, parts = self._block
        self._block = None
        fields = {str(name): str(value) for name, value in self._decoder.decode(b"".join(parts))}
        if frame.stream not in self.begun:
            _must(":status" in fields, "an answer without :status")
            self.begun.add(frame.stream)
        else:
            _must(bool(frame.flags & h2.END_STREAM) and ":status" not in fields, "headers in the middle")
        if frame.flags & h2.END_STREAM:
            _must(fields.get(":status", "200") != "200" or "grpc-status" in fields, "an end without a status")
            self.ended.add(frame.stream)

    def _stream_reset(self, frame: Frame) -> None:
        _must(len(frame.payload) == 4, "RST_STREAM of another length")
        _must(frame.stream not in self._reset, "a stream is reset twice")
        self._reset.add(frame.stream)
        self.ended.add(frame.stream)

    def _settings(self, frame: Frame) -> None:
        _must(len(frame.payload) % 6 == 0 and not (frame.flags and frame.payload), "SETTINGS of another length")

    def _ping(self, frame: Frame) -> None:
        _must(len(frame.payload) == 8, "PING of another length")

    def _goaway(self, frame: Frame) -> None:
        _must(len(frame.payload) >= 8, "GOAWAY of another length")
        self.last_words = h2.read_u32(frame.payload[4:8]) != 0

    def _window(self, frame: Frame) -> None:
        _must(len(frame.payload) == 4 and 0 < h2.read_u32(frame.payload) <= h2.WINDOW_MAX, "a useless WINDOW_UPDATE")


def _must(right: bool, otherwise: str) -> None:
    if not right:
        raise WrongOutput(otherwise)
