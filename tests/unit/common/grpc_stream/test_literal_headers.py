"""Header blocks without a table: they mean to us what they mean to everybody, however they came."""

import hpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ternmq_common.grpc_http2 import literal_headers
from ternmq_common.grpc_http2.frames import Http2Error
from ternmq_common.grpc_http2.header_rules import MalformedHeaders, checked_fields
from ternmq_common.grpc_http2.literal_headers import RULED, HeaderReader, literal_block

WANTED = (":path", ":method", "content-type", "x-mq-client-id", "grpc-timeout")
LOOKED_AT = {*WANTED, *RULED}
NAMES = st.sampled_from((*WANTED, "te", "x-mq-request-id", "user-agent")) | st.text("abc-", min_size=1)
VALUES = st.sampled_from(("POST", "GET", "/", "trailers", "application/grpc")) | st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=400
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=12)
SHARED = HeaderReader(WANTED, passing=("grpc-timeout",))


def meaning(block: bytes, decoder: hpack.Decoder | None = None) -> dict[str, str] | None:
    """What a decoder of hpack and the rules make of it; None: malformed."""
    decoder = decoder or hpack.Decoder(max_header_list_size=1 << 20)
    pairs = [
        (bytes(name).decode("latin-1"), bytes(value).decode("latin-1"))
        for name, value in decoder.decode(block, raw=True)
    ]
    try:
        # The values of others are not looked at.
        fields = checked_fields((name, value if name in LOOKED_AT else "") for name, value in pairs)
    except MalformedHeaders:
        return None
    return {name: value for name, value in fields.items() if name in LOOKED_AT}


def read(reader: HeaderReader, block: bytes) -> dict[str, str] | None:
    """What our reader makes of it; None: malformed."""
    try:
        return reader.read(block)
    except MalformedHeaders:
        return None


@given(fields=FIELDS, huffman=st.booleans(), sensitive=st.booleans())
def test_blocks_of_another_encoder_are_read_as_they_are_meant(
    fields: list[tuple[str, str]], *, huffman: bool, sensitive: bool
) -> None:
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    block = encoder.encode([(*field, sensitive) for field in fields], huffman=huffman)
    for _ in range(2):  # from the caches too
        assert read(SHARED, block) == meaning(block)


@given(fields=FIELDS)
def test_our_own_blocks_mean_what_they_say(fields: list[tuple[str, str]]) -> None:
    block = literal_block(fields)
    assert read(SHARED, block) == meaning(block)


@example(block=b"\xb9")
@given(block=st.binary(max_size=60))
def test_any_bytes_mean_what_hpack_says_or_nothing(block: bytes) -> None:
    try:
        ours = read(HeaderReader(WANTED), block)
    except Http2Error:
        return
    decoder = hpack.Decoder()
    decoder.header_table_size = 0
    try:
        assert ours == meaning(block, decoder)
    except hpack.HPACKError:
        return  # a size of the table that stands late, or the code of a value that nobody wants: let pass


@pytest.mark.parametrize(
    "block", [b"\x80", b"\xbe", b"\xff\xff\xff\xff\xff\xff", b"\x00\x05ab", b"\x40", b"\x3f\xe1\x1f"]
)
def test_what_refers_to_a_table_or_ends_too_early_is_an_error(block: bytes) -> None:
    with pytest.raises(Http2Error):
        HeaderReader(WANTED).read(block)


def test_what_is_remembered_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literal_headers, "_CACHED_MAX", 10)
    reader = HeaderReader(WANTED, passing=("grpc-timeout",))
    for number in range(100):
        fields = (("x-mq-client-id", str(number)), (f"name-{number}", ""), ("grpc-timeout", f"{number}m"))
        assert reader.read(literal_block(fields)) == {"x-mq-client-id": str(number), "grpc-timeout": f"{number}m"}
    assert len(reader._names) <= 10
    assert len(reader._values) <= 10
