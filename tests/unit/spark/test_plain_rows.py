"""The sink's fast path writes the same bytes as the other one, and leaves to it all rows that are not plain."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_ternmq.sink.columns import RowColumns
from pyspark_ternmq.sink.ids import DerivedIds
from pyspark_ternmq.sink.plain_rows import PlainRequest, plain_requests
from pyspark_ternmq.sink.rows import RowReader, RowRequest
from ternmq.connections.send_request import encode_request
from ternmq.hooks import Sending

BORN_NS = 1_700_000_000_123_456_789
PLAIN = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="|"), min_size=1, max_size=200)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def reader_of(batch: pa.RecordBatch, *, request_rows: int = 1000, topic: str | None = "orders") -> RowReader:
    columns = RowColumns({name: place for place, name in enumerate(batch.schema.names)})
    ids = DerivedIds("seed", partition=3, epoch=2)
    return RowReader(columns=columns, topic=topic, partition=3, ids=ids, lanes=4, request_rows=request_rows)


def batch_of(**columns: Any) -> pa.RecordBatch:  # noqa: ANN401 - arrays, or what arrays are made of
    arrays = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


def found(batch: pa.RecordBatch, first_row: int = 0, **how: Any) -> list[PlainRequest] | None:  # noqa: ANN401
    requests = plain_requests(reader_of(batch, **how), batch, first_row)
    return None if requests is None else list(requests)


def encoded_otherwise(request: RowRequest, queue_id: int) -> bytes:
    sending = Sending("client", request.topic, request.messages, request.message_ids)
    return encode_request(sending, queue_id=queue_id, born_ns=BORN_NS, compress_from_bytes=None).SerializeToString()


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "body": st.binary(min_size=1, max_size=300),
                "tag": st.none() | PLAIN,
                "keys": st.none() | st.lists(PLAIN, max_size=3),
                "properties": st.none() | st.dictionaries(TEXT, TEXT, max_size=3).map(lambda one: list(one.items())),
            }
        ),
        min_size=1,
        max_size=7,
    ),
    skipped=st.integers(0, 3),
    names=st.sets(st.sampled_from(["tag", "keys", "properties"])),
    queue_id=st.sampled_from([0, 1, 300]),
    first_row=st.sampled_from([0, 17, (1 << 32) - 3, (5 << 32) + 0xABCDEF]),
    large=st.booleans(),
)
def test_plain_rows_are_encoded_as_their_messages_are(
    rows: list[dict[str, Any]], skipped: int, names: set[str], queue_id: int, first_row: int, large: bool
) -> None:
    text, binary = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
    kinds = {"body": binary, "tag": text, "keys": pa.list_(text), "properties": pa.map_(text, text)}
    columns = {name: pa.array([row[name] for row in rows], kinds[name]) for name in ("body", *sorted(names))}
    batch = pa.RecordBatch.from_pydict(columns).slice(min(skipped, len(rows) - 1))
    [request] = found(batch, first_row) or []
    otherwise = request.as_messages()
    assert list(otherwise.rows) == list(request.rows)
    assert request.encode_request(queue_id=queue_id, born_ns=BORN_NS) == encoded_otherwise(otherwise, queue_id)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_bodies_of_text_and_a_single_key_are_plain(kind: pa.DataType) -> None:
    batch = batch_of(body=pa.array(["zażółć", "b"], kind), keys=pa.array(["k", None], kind))
    [request] = found(batch) or []
    assert request.encode_request(queue_id=4, born_ns=BORN_NS) == encoded_otherwise(request.as_messages(), 4)


@pytest.mark.parametrize(
    "columns",
    [
        {"body": [b"a", None]},
        {"body": [b"a", b""]},
        {"tag": ["a", "b|c"]},
        {"tag": ["a", ""]},
        {"tag": ["a", " b"]},
        {"tag": ["a", "ä"]},
        {"keys": [["a"], ["\x7f"]]},
        {"keys": [["a"], [None]]},
        {"keys": [["a"], [""]]},
        {"properties": pa.array([[("a", None)], []], pa.map_(pa.string(), pa.string()))},
        {"properties": pa.array([[(str(number), "") for number in range(129)], []], pa.map_(pa.string(), pa.string()))},
        {"message_group": [None, "g"]},
        {"message_id": [None, "mine"]},
        {"queue_id": [None, 1]},
        {"priority": [None, 1]},
    ],
)
def test_rows_that_are_not_plain_are_left_to_the_other_path(columns: dict[str, Any]) -> None:
    assert found(batch_of(**{"body": [b"1", b"2"], **columns})) is None


def test_text_that_is_no_utf8_is_left_to_the_other_path() -> None:
    kind = pa.map_(pa.string(), pa.string())
    wrong = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    properties = pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), wrong, pa.array(["v"]), kind)
    assert found(batch_of(body=[b"1"], properties=properties)) is None


def test_other_columns_without_values_do_not_matter() -> None:
    nothing = pa.nulls(2, pa.string())
    assert found(batch_of(body=[b"1", b"2"], message_group=nothing, message_id=nothing)) is not None


def test_rows_with_topics_of_their_own_are_left_to_the_other_path() -> None:
    assert found(batch_of(body=[b"1"], topic=["a"]), topic=None) is None


def test_requests_have_no_more_rows_and_bytes_than_they_may() -> None:
    def rows(batch: pa.RecordBatch, request_rows: int) -> list[list[int]]:
        return [list(one.rows) for one in found(batch, 100, request_rows=request_rows) or []]

    assert rows(batch_of(body=[b"x"] * 5), 2) == [[100, 101], [102, 103], [104]]
    assert rows(batch_of(body=[bytes(3 << 20), b"x", bytes(3 << 20), bytes(1 << 19)]), 9) == [[100, 101], [102, 103]]
