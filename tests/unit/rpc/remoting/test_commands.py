"""Commands keep what they hold in both forms of a header, and read what official clients and servers wrote."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_rpc.remoting.commands import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    Command,
    InvalidField,
    Language,
    decode_command,
    encode_command,
)
from ternmq_rpc.remoting.frames import BINARY, JSON, FrameReader, RemotingError, join_frame
from tests.unit.rpc.remoting.captured import read_frames

CAPTURED = read_frames()
INT32 = st.integers(INT32_MIN, INT32_MAX)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FIELDS = st.dictionaries(TEXT, TEXT, max_size=5)


def read_one(frame: bytes) -> Command:
    [parts] = FrameReader().read_frames(frame)
    return decode_command(*parts)


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_frames_are_read_and_written_as_they_were(name: str) -> None:
    """Java's clients and servers write the fields in the order of their names; the two of a test program do not."""
    frame = CAPTURED[name]
    command = read_one(frame)
    [(serialization, header, body)] = FrameReader().read_frames(frame)
    again = encode_command(command, serialization)
    if serialization == BINARY:
        assert again == frame
        return
    [(_, header_again, body_again)] = FrameReader().read_frames(again)
    expected = json.loads(header)
    expected.setdefault("extFields", {})
    assert json.loads(header_again) == expected
    assert body_again == body


def test_a_captured_send_has_its_fields() -> None:
    command = read_one(CAPTURED["send request"])
    assert (command.code, command.opaque, command.version, command.language) == (310, 105, 409, Language.JAVA)
    assert command.get_text("b") == "VT"
    assert command.get_int64("g") == 1795200000001
    assert command.get_bool("m") is False
    assert command.get_text("i").split("\x02")[0] == "KEYS\x01k1"
    assert command.body == b"hello"


@given(
    code=INT32,
    opaque=INT32,
    flag=INT32,
    version=st.integers(0, 2**15 - 1),
    language=st.sampled_from(Language),
    remark=TEXT,
    fields=FIELDS,
    body=st.binary(max_size=50),
    serialization=st.sampled_from([JSON, BINARY]),
)
def test_a_command_comes_back_as_it_was(
    code: int,
    opaque: int,
    flag: int,
    version: int,
    language: Language,
    remark: str,
    fields: dict[str, str],
    body: bytes,
    serialization: int,
) -> None:
    written = Command(
        code,
        opaque=opaque,
        flag=flag,
        version=version,
        language=language,
        remark=remark,
        fields=fields,
        body=body,
    )
    read = read_one(encode_command(written, serialization))
    for name in ("body", "code", "fields", "flag", "language", "opaque", "remark", "version"):
        assert getattr(read, name) == getattr(written, name), name


@given(serialization=st.integers(0, 3), header=st.binary(max_size=80))
def test_any_header_is_a_command_or_an_error(serialization: int, header: bytes) -> None:
    try:
        command = decode_command(serialization, header, b"")
    except RemotingError:
        return
    assert all(isinstance(value, str) for pair in command.fields.items() for value in pair)


@given(
    header=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                TEXT | st.sampled_from(["code", "opaque", "flag", "language", "version", "remark", "extFields"]),
                inner,
                max_size=5,
            )
        ),
    )
)
def test_any_json_is_a_command_or_an_error(header: object) -> None:
    try:
        command = decode_command(JSON, json.dumps(header).encode(), b"")
    except RemotingError:
        return
    assert INT32_MIN <= command.code <= INT32_MAX
    assert all(isinstance(value, str) for value in command.fields.values())


def test_deep_nesting_is_an_error() -> None:
    with pytest.raises(RemotingError):
        decode_command(JSON, b'{"code":1,"x":' + b"[" * 200_000, b"")


def test_numbers_and_booleans_of_the_cpp_client_are_texts() -> None:
    header = (
        b'{"code":11,"language":"CPP","version":63,"extFields":{"queueId":0,"sysFlag":6,"batch":"0","unitMode":false,'
        b'"ratio":1.5,"nothing":null}}'
    )
    command = decode_command(JSON, header, b"")
    assert command.fields == {"queueId": "0", "sysFlag": "6", "batch": "0", "unitMode": "false", "ratio": "1.5"}
    assert command.language == Language.CPP
    assert command.get_bool("batch") is False


@pytest.mark.parametrize(("language", "expected"), [('"KLINGON"', Language.OTHER), ("9", Language.GO)])
def test_a_language_may_be_unknown_or_a_number(language: str, expected: Language) -> None:
    assert decode_command(JSON, f'{{"code":1,"language":{language}}}'.encode(), b"").language == expected


@pytest.mark.parametrize("text", ["", "x", "1_0", " 1", "+1", "٣", "--1", "-", "1.0", "9" * 21, str(2**31)])
def test_a_number_that_is_none_names_its_field(text: str) -> None:
    with pytest.raises(InvalidField, match="queueId"):
        Command(1, fields={"queueId": text}).get_int32("queueId")


@given(value=st.integers(INT64_MIN, INT64_MAX))
def test_numbers_of_64_bits_are_read(value: int) -> None:
    assert Command(1, fields={"offset": str(value)}).get_int64("offset") == value


def test_a_missing_field_has_its_default_or_is_an_error() -> None:
    command = Command(1, fields={"topic": "", "order": "maybe"})
    assert command.get_text("topic", "T") == "T"
    assert command.get_int32("queueId", -1) == -1
    assert command.get_bool("batch", default=False) is False
    with pytest.raises(InvalidField, match="topic"):
        command.get_text("topic")
    with pytest.raises(InvalidField, match="queueId"):
        command.get_int64("queueId")
    with pytest.raises(InvalidField, match="order"):
        command.get_bool("order")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\x00\x01\x00",
        # remark longer than the header
        b"\x00\x01\x00\x00\x01" + bytes(8) + b"\x7f\xff\xff\xff" + bytes(4),
        # fields that end within a value
        b"\x00\x01\x00\x00\x01" + bytes(12) + b"\x00\x00\x00\x07" + b"\x00\x01k\x00\x00\x00\x09",
        # fields that take more than there is
        b"\x00\x01\x00\x00\x01" + bytes(12) + b"\x00\x00\x00\x08" + b"\x00\x01k\x00\x00\x00\x00",
    ],
)
def test_a_binary_header_whose_lengths_are_wrong_is_an_error(header: bytes) -> None:
    with pytest.raises(RemotingError):
        read_one(join_frame(BINARY, header))
