"""What proxies and servers read differently is refused, by the health of a process and by a site beside it."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_runtime.http.strict_http import StrictConnection
from tests.unit.runtime.http.test_site import Echo, address, exchanged, site

__all__ = ["address", "site"]  # fixtures

PATHS = ["/health/live", "/site/body"]
HOST = b"host: here\r\n"
BOTH = "it has both Content-Length and Transfer-Encoding"
ENDS = "a line ends without carriage return and line feed"
FOLDED = "a header continues in a second line"
CHUNKED = b"transfer-encoding: chunked\r\n"
HEADS = {
    "CL and TE": (b"POST %s HTTP/1.1\r\n" + HOST + b"content-length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n", BOTH),
    "TE and CL": (b"POST %s HTTP/1.1\r\n" + HOST + CHUNKED + b"Content-Length: 0\r\n\r\n0\r\n\r\n", BOTH),
    "TE in 1.0": (b"POST %s HTTP/1.0\r\n" + CHUNKED + b"\r\n0\r\n\r\n", "HTTP/1.0 has no Transfer-Encoding"),
    "bare LF after the request line": (b"GET %s HTTP/1.1\n" + HOST + b"\r\n", ENDS),
    "bare LF after a header": (b"GET %s HTTP/1.1\r\nhost: here\n\r\n", ENDS),
    "bare LF at the end": (b"GET %s HTTP/1.1\r\n" + HOST + b"\n", ENDS),
    "nothing but LF": (b"GET %s HTTP/1.1\nhost: here\n\n", ENDS),
    "folded by a space": (b"GET %s HTTP/1.1\r\n" + HOST + b"x: a\r\n b\r\n\r\n", FOLDED),
    "folded by a tab": (b"GET %s HTTP/1.1\r\n" + HOST + b"transfer-encoding:\r\n\tchunked\r\n\r\n", FOLDED),
}
BODY = b"POST /site/body HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n3\r\nabc\r\n"
TRAILERS = {
    "bare LF behind the last chunk": (b"0\r\n\n", ENDS),
    "bare LF behind a trailer": (b"0\r\nx: y\n\r\n", ENDS),
    "a folded trailer": (b"0\r\nx: y\r\n z\r\n\r\n", FOLDED),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", HEADS)
async def test_a_head_of_two_meanings_is_refused_and_nothing_behind_it_is_read(
    address: str, site: Echo, path: str, name: str
) -> None:
    head, reason = HEADS[name]
    following = b"GET /site/at_once HTTP/1.1\r\n" + HOST + b"\r\n"
    answer = await exchanged(address, head % path.encode() + following)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert reason.encode() in answer
    assert site.scopes == []


@pytest.mark.parametrize("name", TRAILERS)
@pytest.mark.parametrize("by_byte", [False, True])
async def test_a_trailer_of_two_meanings_is_refused(address: str, name: str, *, by_byte: bool) -> None:
    trailer, reason = TRAILERS[name]
    pieces = [bytes([each]) for each in BODY + trailer] if by_byte else [BODY + trailer]
    answer = await exchanged(address, *pieces)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert reason.encode() in answer


async def test_line_ends_within_a_body_are_the_bodys(address: str) -> None:
    ends = b"connection: close\r\n\r\n"
    for head, body in (
        (b"content-length: 6\r\n", b"a\n b\r\n"),
        (CHUNKED, b"2\r\na\n\r\n4\r\n b\r\n\r\n0\r\nx: y\r\n\r\n"),
    ):
        answer = await exchanged(address, b"POST /site/body HTTP/1.1\r\n" + HOST + head + ends + body)
        assert answer.endswith(b"\r\n\r\na\n b\r\n")


@given(body=st.binary(max_size=30), cuts=st.sets(st.integers(0, 200)), chunk=st.integers(1, 7))
def test_a_sound_request_is_read_whole_however_it_comes(body: bytes, cuts: set[int], chunk: int) -> None:
    chunks = [body[at : at + chunk] for at in range(0, len(body), chunk)]
    framed = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks)
    once = b"POST / HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n" + framed + b"0\r\nx: y\r\n\r\n"
    data = once + b"POST / HTTP/1.1\r\n" + HOST + b"content-length: %d\r\n\r\n" % len(body) + body
    connection = StrictConnection(head_bytes_max=1 << 14)
    bodies = [b""]
    begin = 0
    for end in [*sorted(cut for cut in cuts if cut < len(data)), len(data)]:
        if end > begin:
            connection.receive_data(data[begin:end])
        begin = end
        while (event := connection.next_event()) is not h11.NEED_DATA and event is not h11.PAUSED:
            if isinstance(event, h11.Data):
                bodies[-1] += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                bodies.append(b"")
                connection.send(h11.Response(status_code=204, headers=[]))
                connection.send(h11.EndOfMessage())
                connection.start_next_cycle()
    assert bodies == [body, body, b""]
