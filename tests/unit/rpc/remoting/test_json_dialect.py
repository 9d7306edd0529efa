"""The dialect of Java's JSON: keys that are numbers or message queues are written as Java reads them, and read back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_rpc.remoting.frames import FrameReader, RemotingError
from ternmq_rpc.remoting.json_dialect import (
    BODY_BYTES_MAX,
    DEPTH_MAX,
    DIALECT_BYTES_MAX,
    MessageQueueKey,
    decode_dialect,
    encode_dialect,
)
from tests.unit.rpc.remoting.captured import read_frames

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
QUEUES = st.builds(MessageQueueKey, TEXT, TEXT, st.integers(0, 1024))
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | QUEUES, inner, max_size=4),
    max_leaves=12,
)


@given(value=VALUES)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    assert decode_dialect(encode_dialect(value)) == value


@given(value=st.dictionaries(TEXT, SCALARS, max_size=4))
def test_what_is_json_is_written_as_json(value: object) -> None:
    assert json.loads(encode_dialect(value)) == value


@given(
    data=st.binary(max_size=60)
    | st.text(st.sampled_from('{}[],:"\\ 0123456789-.eEtrufalsn'), max_size=60).map(str.encode)
)
def test_any_bytes_are_a_value_or_an_error(data: bytes) -> None:
    try:
        decode_dialect(data)
    except RemotingError:
        return
    decode_dialect(data)


def test_numbers_and_queues_are_keys_without_quotes() -> None:
    queue = MessageQueueKey("T", "b", 0)
    assert encode_dialect({"a": {0: "h:1"}, "b": {queue: {"maxOffset": 3}}}) == (
        b'{"a":{0:"h:1"},"b":{{"brokerName":"b","queueId":0,"topic":"T"}:{"maxOffset":3}}}'
    )
    assert decode_dialect(b'{ "a" : {0:"h:1"} , "t":{{"topic":"T","queueId":0,"brokerName":"b"}:5} }') == {
        "a": {"0": "h:1"},
        "t": {queue: 5},
    }


def test_captured_topic_stats_are_read() -> None:
    [(_, _, body)] = FrameReader().read_frames(read_frames()["lock response to 202"])
    queue = MessageQueueKey("VT", "broker-a", 0)
    stats = {"lastUpdateTimestamp": 1795222335151, "maxOffset": 3, "minOffset": 0}
    assert decode_dialect(body) == {"offsetTable": {queue: stats}, "topicPutTps": 0.0}
    assert decode_dialect(encode_dialect(decode_dialect(body))) == decode_dialect(body)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b"{{"])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    with pytest.raises(RemotingError, match="nested"):
        decode_dialect(opening * 20_000)
    assert decode_dialect(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX) is not None


def test_ordinary_json_may_be_longer_than_what_only_java_reads() -> None:
    text = b"1" * DIALECT_BYTES_MAX
    assert decode_dialect(b'{"a":"%s"}' % text) == {"a": text.decode()}
    with pytest.raises(RemotingError, match="is no JSON"):
        decode_dialect(b'{1:"%s"}' % text)
    with pytest.raises(RemotingError, match="are allowed"):
        decode_dialect(b" " * BODY_BYTES_MAX + b"1")


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[1", b"{1}", b'{"a" 1}', b'{"a":1,}', b"[1,]", b"1 2", b"{true:1}", b"{{}:1}", b'"\\x"', b"\xff"],
)
def test_what_is_not_of_the_dialect_is_refused(data: bytes) -> None:
    with pytest.raises(RemotingError):
        decode_dialect(data)
