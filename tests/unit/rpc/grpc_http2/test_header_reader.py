"""Header blocks: they mean to us what they mean to everybody, however they came and whatever came before."""

import uuid
from collections.abc import Iterable

import hpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ternmq_rpc.grpc_http2.frames import Http2Error
from ternmq_rpc.grpc_http2.headers import header_reader
from ternmq_rpc.grpc_http2.headers.header_reader import TABLE_BYTES_MAX, HeaderReader, HeaderTable
from ternmq_rpc.grpc_http2.headers.header_rules import RULED, MalformedHeaders, checked_name, checked_value
from ternmq_rpc.grpc_http2.headers.literal_headers import literal_block

WANTED = (":path", ":method", "content-type", "x-mq-client-id", "grpc-timeout")
LOOKED_AT = {*WANTED, *RULED}
NAMES = st.sampled_from((*WANTED, "te", "x-mq-request-id", "user-agent")) | st.text("abc-", min_size=1)
VALUES = st.sampled_from(("POST", "GET", "/", "trailers", "application/grpc")) | st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=400
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=12)
# In a table, the same again and again; some are larger than any table.
AGAIN = st.tuples(NAMES, st.sampled_from("abcdef") | st.integers(0, 5000).map(lambda size: "v" * size))
SHARED = HeaderReader(WANTED)
Block = tuple[int | None, bool, bool, list[tuple[str, str]]]


def meaning(block: bytes, decoder: hpack.Decoder | None = None) -> dict[str, str] | None:
    """What a decoder of hpack and the rules make of it; None: malformed."""
    decoder = decoder or hpack.Decoder()
    decoder.max_header_list_size = 1 << 20
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


def checked_fields(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The fields by name; of several with one name the last counts. MalformedHeaders."""
    fields: dict[str, str] = {}
    regular = False
    for name, value in pairs:
        if checked_name(name)[0] != ":":
            regular = True
        elif regular or name in fields:
            raise MalformedHeaders(f"the field {name} is there twice, or after others")
        fields[name] = checked_value(name, value)
    return fields


def read(reader: HeaderReader, block: bytes, table: HeaderTable | None = None) -> dict[str, str] | None:
    """What our reader makes of it; None: malformed."""
    try:
        return reader.read_block(block, table or HeaderTable())
    except MalformedHeaders:
        return None


def added(name: bytes, value: bytes) -> bytes:
    """A literal field for the table."""
    return b"\x40" + bytes((len(name),)) + name + bytes((len(value),)) + value


@given(fields=FIELDS, huffman=st.booleans(), sensitive=st.booleans())
def test_blocks_of_an_encoder_without_a_table_are_read_as_they_are_meant(
    fields: list[tuple[str, str]], *, huffman: bool, sensitive: bool
) -> None:
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    block = encoder.encode([(*field, sensitive) for field in fields], huffman=huffman)
    for _ in range(2):  # from the caches too
        assert read(SHARED, block) == meaning(block)


@given(
    blocks=st.lists(
        st.tuples(
            st.none() | st.sampled_from((0, 31, 32, 100, 1000, TABLE_BYTES_MAX)),
            st.booleans(),
            st.booleans(),
            FIELDS | st.lists(AGAIN, max_size=30),
        ),
        max_size=12,
    )
)
def test_blocks_of_an_encoder_are_read_as_they_are_meant_whatever_its_table_has(blocks: list[Block]) -> None:
    encoder, decoder, table = hpack.Encoder(), hpack.Decoder(), HeaderTable()
    for size, huffman, sensitive, fields in blocks:
        if size is not None:
            encoder.header_table_size = size
        block = encoder.encode([(*field, sensitive) for field in fields], huffman=huffman)
        assert read(SHARED, block, table) == meaning(block, decoder)
        held = sum(len(field.value) for field in table.entries if field.name is not None)
        assert held <= table.held_bytes <= TABLE_BYTES_MAX + header_reader._LATE_BYTES


@pytest.mark.parametrize("huffman", [True, False])
def test_clients_that_add_something_new_with_each_call_are_understood_for_ever(*, huffman: bool) -> None:
    encoder, reader, table = hpack.Encoder(), HeaderReader(WANTED), HeaderTable()
    for number in range(2000):
        fields = {
            ":method": "POST",
            ":path": "/Heartbeat" if number % 10 == 9 else "/SendMessage",
            "grpc-timeout": f"{2_999_999 - number % 7}u",
            "x-mq-request-id": str(uuid.UUID(int=number * 0x1234567890ABCDEF01234567890ABCD % (1 << 128))),
            "x-mq-client-id": "a client",
            "x-mq-date-time": f"20261121T12{number // 3600:02}{number // 60 % 60:02}Z",
        }
        found = reader.read_block(encoder.encode(fields.items(), huffman=huffman), table)
        assert found == {name: value for name, value in fields.items() if name in LOOKED_AT}
    assert table.held_bytes <= TABLE_BYTES_MAX + header_reader._LATE_BYTES


@given(fields=FIELDS)
def test_our_own_blocks_mean_what_they_say(fields: list[tuple[str, str]]) -> None:
    block = literal_block(fields)
    assert read(SHARED, block) == meaning(block)


@example(blocks=[b"\xb9"])
@example(blocks=[b"\x40\x01a\x00", b"\xbe\x7f\x00\x01"])
@given(blocks=st.lists(st.binary(max_size=60), max_size=4))
def test_any_bytes_mean_what_hpack_says_or_nothing(blocks: list[bytes]) -> None:
    reader, table, decoder = HeaderReader(WANTED), HeaderTable(), hpack.Decoder()
    for block in blocks:
        try:
            ours = read(reader, block, table)
        except Http2Error:
            return
        try:
            assert ours == meaning(block, decoder)
        except hpack.HPACKError:
            return  # the code of a value that nobody wants, an entry that was evicted late: let pass


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"\x80", id="index 0"),
        pytest.param(b"\xbe", id="an entry that is not there"),
        pytest.param(b"\xff\x00", id="an entry far away that is not there"),
        pytest.param(b"\x7f\x00\x01x", id="a name that is not there"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff", id="a number without end"),
        pytest.param(b"\x00\x05ab", id="a name that is cut"),
        pytest.param(b"\x00\x01a\x05b", id="a value that is cut"),
        pytest.param(b"\x40", id="a field that is cut"),
        pytest.param(b"\x3f\xe2\x1f", id="a table that is too large"),
        pytest.param(b"\x82\x20", id="a size after fields"),
    ],
)
def test_what_refers_to_nothing_or_ends_too_early_is_an_error(block: bytes) -> None:
    with pytest.raises(Http2Error):
        HeaderReader(WANTED).read_block(block, HeaderTable())


def test_what_a_table_can_t_hold_empties_it() -> None:
    reader, table = HeaderReader(WANTED), HeaderTable()
    reader.read_block(added(b"x-mq-client-id", b"a"), table)
    assert reader.read_block(b"\xbe", table) == {"x-mq-client-id": "a"}
    reader.read_block(b"\x40\x01x\x7f" + b"\x81\x3e" + b"y" * 8064, table)
    assert (table.entries, table.held_bytes) == ([], 0)
    with pytest.raises(Http2Error):
        reader.read_block(b"\xbe", table)


def test_a_table_without_room_keeps_nothing() -> None:
    reader, table = HeaderReader(WANTED), HeaderTable()
    reader.read_block(added(b"x-mq-client-id", b"a"), table)
    assert reader.read_block(b"\x20" + added(b"x-mq-client-id", b"b"), table) == {"x-mq-client-id": "b"}
    assert table.entries == []
    reader.read_block(b"\x3f\xe1\x1f" + added(b"x-mq-client-id", b"c"), table)
    assert reader.read_block(b"\xbe", table) == {"x-mq-client-id": "c"}


@pytest.mark.parametrize(
    "malformed",
    [
        pytest.param(added(b"Upper", b""), id="a name"),
        pytest.param(added(b"te", b"\n"), id="a value"),
        pytest.param(b"\xb9", id="a name by its number"),
        pytest.param(b"\x90\x83", id="a pseudo field after others"),
    ],
)
def test_a_malformed_block_leaves_the_table_as_its_client_has_it(malformed: bytes) -> None:
    reader, table = HeaderReader(WANTED), HeaderTable()
    for _ in range(2):
        with pytest.raises(MalformedHeaders):
            reader.read_block(malformed + added(b"x-mq-client-id", b"after it"), table)
        assert reader.read_block(b"\xbe", table) == {"x-mq-client-id": "after it"}
    if malformed[0] == 0x40:  # the entry is as malformed as the field was
        with pytest.raises(MalformedHeaders):
            reader.read_block(b"\xbf", table)


def test_what_is_remembered_has_a_limit() -> None:
    reader = HeaderReader(WANTED, cached_max=10)
    for number in range(100):
        fields = (("x-mq-client-id", str(number)), (f"name-{number}", ""), ("grpc-timeout", f"{number}m"))
        found = reader.read_block(literal_block(fields), HeaderTable())
        assert found == {"x-mq-client-id": str(number), "grpc-timeout": f"{number}m"}
        assert len(reader._names) <= 10
        assert sum(len(name.values) for name in reader._wanted.values()) <= 10


def test_tables_share_what_they_have() -> None:
    reader, tables = HeaderReader(WANTED), [HeaderTable(), HeaderTable()]
    for table in tables:
        reader.read_block(added(b"x-mq-client-id", b"a client") + added(b"x-mq-request-id", uuid.uuid4().bytes), table)
    assert [one is other for one, other in zip(*(table.entries for table in tables), strict=True)] == [True, True]
