"""Ordinary messages are stored and handed out directly, and become what the long way makes of them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from ternmq_common.limits import MessageLimits
from ternmq_common.shard.mirror_origin import MIRROR_PROPERTY, Origin, encode_origin
from ternmq_common.shard.model import NewMessage, QueueRef, StoredMessage
from ternmq_common.shard.property_text import read_properties, write_properties
from ternmq_proxy.fronts.remoting.messages import property_names as names
from ternmq_proxy.fronts.remoting.messages.delivered_messages import RecordMaker
from ternmq_proxy.fronts.remoting.messages.ordinary_messages import OrdinaryReader
from ternmq_proxy.fronts.remoting.messages.ordinary_records import OrdinaryRecords
from ternmq_proxy.fronts.remoting.messages.sent_messages import SentHeader, read_sent_message
from ternmq_proxy.operations.message_checks import check_message
from ternmq_proxy.processors.sending.stored_form import body_checksum, to_stored_form
from ternmq_rpc.remoting.message_ids import Host, parse_host
from ternmq_rpc.remoting.message_records import decode_records, encode_record

NOW_MS = 1_700_000_000_000
PEER = "10.0.0.2:5000"
LIMITS = MessageLimits()
STORE_HOST = Host(bytes((10, 0, 0, 1)), 9876)
QUEUE = QueueRef("topic", "broker-0", 3)
MAKER = RecordMaker(STORE_HOST, "DefaultCluster")
WORD = st.text(st.characters(exclude_categories=["Cs", "C", "Z"]), min_size=1, max_size=200)
OWN = st.dictionaries(WORD.filter(lambda name: name not in names.RESERVED), WORD, max_size=3)
PROPERTIES = st.fixed_dictionaries(
    {"UNIQ_KEY": WORD},
    optional={"TAGS": WORD.filter(lambda tag: "|" not in tag), "KEYS": WORD, "WAIT": st.just("true"), "": WORD},
)


def header_of(
    properties: str, born_ms: int = NOW_MS, flag: int = 0, system_flag: int = 0, times: int = 0
) -> SentHeader:
    return SentHeader("topic", flag, system_flag, born_ms, PEER, properties, times)


def read_directly(header: SentHeader, body: bytes, flag: int = 0) -> NewMessage | None:
    return OrdinaryReader(header, NOW_MS, LIMITS).read_message(header.properties, body, flag)


def read_by_the_long_way(header: SentHeader, body: bytes) -> NewMessage:
    message = read_sent_message(header, body, (), NOW_MS)
    kind = check_message(message, LIMITS, NOW_MS)
    return to_stored_form(message, kind, body_checksum(body), PEER, NOW_MS, LIMITS)


def as_stored(message: NewMessage) -> StoredMessage:
    return StoredMessage(QUEUE, 5, NOW_MS + 1, message.system, message.rest, 77)


@given(
    own=OWN,
    known=PROPERTIES,
    keys=st.lists(WORD, max_size=3),
    body=st.binary(min_size=1, max_size=300),
    born_ms=st.integers(-(2**63), 2**63 - 1) | st.integers(0, NOW_MS * 2),
)
def test_an_ordinary_message_is_stored_as_by_the_long_way(
    own: dict[str, str], known: dict[str, str], keys: list[str], body: bytes, born_ms: int
) -> None:
    if keys:
        known["KEYS"] = " ".join(keys)
    header = header_of(write_properties({**own, **known}), born_ms)
    message = read_directly(header, body)
    if message is None:
        assert len(set(keys)) < len(keys)
    else:
        assert message == read_by_the_long_way(header, body)


def encode_directly(stored: StoredMessage) -> bytes | None:
    """Return the record as it is made of an ordinary message; None, and nothing is written, of any other."""
    writer = BytesWriter()
    writer.write(b"before")
    if OrdinaryRecords(STORE_HOST, "DefaultCluster").write_message(writer, stored):
        return writer.getvalue().removeprefix(b"before")
    assert writer.getvalue() == b"before"
    return None


@given(own=OWN, known=PROPERTIES, body=st.binary(min_size=1, max_size=300), born_ms=st.integers(0, NOW_MS * 2))
def test_the_record_of_an_ordinary_message_is_that_of_the_long_way(
    own: dict[str, str], known: dict[str, str], body: bytes, born_ms: int
) -> None:
    message = read_directly(header_of(write_properties({**own, **known}), born_ms), body)
    assert message is not None
    stored = as_stored(message)
    direct = encode_directly(stored)
    assert direct is not None
    [record] = decode_records(direct)
    [other] = decode_records(encode_record(MAKER.make_record(stored)))
    assert read_properties(record.properties) == read_properties(other.properties)
    assert record == other._replace(properties=record.properties)
    assert MAKER.encode_messages([stored, stored]) == MAKER.encode_message(stored) * 2 == direct * 2


@pytest.mark.parametrize("name", sorted(names.RESERVED - names.NOT_HIDDEN | {"TRACE_CONTEXT"}))
def test_a_message_with_a_property_of_the_protocol_goes_the_long_way(name: str) -> None:
    assert read_directly(header_of(write_properties({"UNIQ_KEY": "A1", name: "1"})), b"x") is None


@pytest.mark.parametrize(
    "properties",
    [
        "TAGS\x01tag",
        "UNIQ_KEY\x01 \x02",
        "UNIQ_KEY\x01A1\x02UNIQ_KEY\x01A2",
        "UNIQ_KEY\x01A1\x02TAGS\x01a\x02TAGS\x01b",
        "UNIQ_KEY\x01A1\x02KEYS\x01a a",
        "UNIQ_KEY\x01A1\x02own\x01a\x02own\x01b",
        "UNIQ_KEY\x01A1\x02TAGS\x01a|b",
        "UNIQ_KEY\x01A1\x02TAGS\x01  ",
        "UNIQ_KEY\x01A1\x02own\x01a\x07",
        "UNIQ_KEY\x01A1\x02own\x01" + "a" * LIMITS.properties_bytes_max,
        "UNIQ_KEY\x01A1" + "".join(f"\x02own{number}\x01a" for number in range(LIMITS.properties_max + 1)),
    ],
)
def test_what_is_wrong_or_unusual_goes_the_long_way(properties: str) -> None:
    assert read_directly(header_of(properties), b"x") is None


def test_flags_retries_and_bodies_that_are_not_ordinary_go_the_long_way() -> None:
    properties = "UNIQ_KEY\x01A1"
    assert read_directly(header_of(properties), b"x") is not None
    assert read_directly(header_of(properties), b"") is None
    assert read_directly(header_of(properties), bytes(LIMITS.body_bytes_max + 1)) is None
    assert read_directly(header_of(properties), b"x", flag=1) is None
    for other in (header_of(properties, flag=1), header_of(properties, system_flag=1), header_of(properties, times=1)):
        assert read_directly(other, b"x") is None


@pytest.mark.parametrize("host", ["[::1]:80", "10.0.0.2:5000", "a name"])
def test_a_record_has_the_host_of_birth(host: str) -> None:
    message = read_directly(header_of("UNIQ_KEY\x01A1")._replace(born_host=host), b"x")
    assert message is not None
    [record] = decode_records(MAKER.encode_message(as_stored(message)))
    assert record.born_host == parse_host(host)


def test_a_host_that_is_no_text_is_left_to_protobuf() -> None:
    message = read_directly(header_of("UNIQ_KEY\x01A1")._replace(born_host="10.0.0.2:5000"), b"x")
    assert message is not None
    system = message.system.replace(b"10.0.0.2", b"\x800.0.0.2")
    assert encode_directly(StoredMessage(QUEUE, 5, NOW_MS + 1, system, message.rest, 77)) is None


@given(cut=st.integers(0, 200), changed=st.integers(0, 255), at=st.integers(0, 200))
@example(cut=0, changed=128, at=62)  # a host of birth that is no text
def test_a_damaged_stored_form_is_left_to_protobuf(cut: int, changed: int, at: int) -> None:
    message = read_directly(header_of("own\x01value\x02UNIQ_KEY\x01A1\x02TAGS\x01t\x02KEYS\x01k"), b"body")
    assert message is not None
    for part in ("system", "rest"):
        data = bytearray(getattr(message, part))
        data[at % len(data)] = changed
        other = {"system": message.system, "rest": message.rest, part: bytes(data[: len(data) - cut % len(data)])}
        stored = StoredMessage(QUEUE, 5, NOW_MS + 1, other["system"], other["rest"], 77)
        record = encode_directly(stored)
        assert record is None or int.from_bytes(record[:4]) == len(record)


def test_a_copy_of_a_mirror_has_the_birth_of_its_original() -> None:
    origin = Origin(5, 1_700_000_000_123, "10.0.0.9:77", 1, 2, "a", "t", ("east",))
    properties = f"UNIQ_KEY\x01A1\x02{MIRROR_PROPERTY}\x01{encode_origin(origin)}"
    message = read_directly(header_of(properties), b"x")
    assert message is not None
    stored = as_stored(message)
    [record] = decode_records(MAKER.encode_message(stored))
    assert (record.born_ms, record.born_host) == (1_700_000_000_123, parse_host("10.0.0.9:77"))
    false = f"UNIQ_KEY\x01A1\x02{MIRROR_PROPERTY}\x01{encode_origin(origin).replace('east', '')}"
    message = read_directly(header_of(false), b"x")
    assert message is not None
    [record] = decode_records(MAKER.encode_message(as_stored(message)))
    assert record.born_ms == header_of(false).born_ms
