"""HTTP/1.1 as h11 reads it, but stricter where other programs would read the bytes differently.

Where a proxy and a server disagree about the end of a request, one client's bytes become another client's request. So
each of these is refused with 400 (RFC 9112), also in the trailer of a chunked body:

framing     Content-Length and Transfer-Encoding in one request, Transfer-Encoding in HTTP/1.0 (6.1, 6.3)
line ends   a line feed without its carriage return, or the other way round (2.2)
folding     a header that continues in a line which begins with white space (5.2)
"""

import re

import h11

_LINE_ENDS = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_FOLDED = re.compile(rb"\n[ \t]")
_FRAMING = (b"content-length", b"transfer-encoding")


class StrictConnection(h11.Connection):
    """A server's connection. `is_refused`: one of the faults above was found; the answer to it is the last one."""

    def __init__(self, *, head_bytes_max: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=head_bytes_max)
        self.is_refused = False
        self._is_chunked = False
        self._last = b""
        """The first half of the line end after a chunk, while its second half has not been received."""

    def next_event(self) -> "h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]":
        """Return the peer's next event; h11.RemoteProtocolError for anything that is not strict HTTP."""
        is_head = self.their_state is h11.IDLE
        if not is_head and not (self._is_chunked and self.their_state is h11.SEND_BODY):
            return super().next_event()
        before = self.trailing_data[0]
        event = super().next_event()
        taken = self._last + before[: len(before) - len(self.trailing_data[0])]
        if isinstance(event, h11.Request):
            self._check_lines(taken)
            self._check_framing(event)
            self._last = b""
        elif isinstance(event, h11.EndOfMessage):
            self._check_lines(taken)
            self._last = b""
        else:
            self._last = b"\r" if event is h11.NEED_DATA and taken.endswith(b"\r") else b""
        return event

    def _check_lines(self, taken: bytes) -> None:
        if _LINE_ENDS.search(taken):
            self._refuse_request("a line ends without carriage return and line feed")
        if _FOLDED.search(taken):
            self._refuse_request("a header continues in a second line")

    def _check_framing(self, request: h11.Request) -> None:
        framing = {name for name, _ in request.headers if name in _FRAMING}
        self._is_chunked = b"transfer-encoding" in framing
        if len(framing) > 1:
            self._refuse_request("it has both Content-Length and Transfer-Encoding")
        if self._is_chunked and request.http_version == b"1.0":
            self._refuse_request("HTTP/1.0 has no Transfer-Encoding")

    def _refuse_request(self, reason: str) -> None:
        self.is_refused = True
        raise h11.RemoteProtocolError(reason)
