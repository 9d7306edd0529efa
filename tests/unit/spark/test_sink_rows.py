"""Arrow batches become messages: every type that Spark may send, nulls, slices, and rows that are no messages."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from pyspark_ternmq.sink.columns import RowColumns
from pyspark_ternmq.sink.errors import WriteFailed
from pyspark_ternmq.sink.ids import DerivedIds
from pyspark_ternmq.sink.rows import RowReader, RowRequest
from ternmq import Message

IDS = DerivedIds("seed", partition=3, epoch=0)


def requests(
    batch: pa.RecordBatch, *, topic: str | None = "orders", first_row: int = 0, request_rows: int = 1000
) -> list[RowRequest]:
    columns = RowColumns({name: place for place, name in enumerate(batch.schema.names)})
    reader = RowReader(columns=columns, topic=topic, partition=3, ids=IDS, lanes=4, request_rows=request_rows)
    return list(reader.read_requests(batch, first_row))


def of_kafka(batch: pa.RecordBatch, *, groups_by_key: bool = False) -> list[RowRequest]:
    """Requests of columns by the names that `checked_columns` gives Kafka's."""
    columns = RowColumns({name: place for place, name in enumerate(batch.schema.names)})
    reader = RowReader(
        columns=columns, topic="t", partition=3, ids=IDS, lanes=4, request_rows=1000, groups_by_key=groups_by_key
    )
    return list(reader.read_requests(batch, 0))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
def test_kafka_s_key_is_a_key_or_the_message_group(kind: pa.DataType) -> None:
    batch = batch_of(key=pa.array(["ä", None], pa.string()).cast(kind), body=[b"1", b"2"])
    [request] = of_kafka(batch)
    assert list(request.messages) == [Message("t", b"1", keys=("ä",)), Message("t", b"2")]
    grouped = [message for request in of_kafka(batch, groups_by_key=True) for message in request.messages]
    assert sorted(grouped, key=lambda one: one.body) == [Message("t", b"1", message_group="ä"), Message("t", b"2")]


def test_kafka_s_headers_are_properties() -> None:
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    rows = [[{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}, {"key": "n", "value": None}], None, []]
    batch = batch_of(body=[b"1", b"2", b"3"], headers=pa.array(rows, pa.list_(pair)))
    [request] = of_kafka(batch)
    assert [dict(message.properties) for message in request.messages] == [{"a": "2"}, {}, {}]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"key": pa.array([b"a", b"\xff"], pa.binary())}, "column key is no UTF-8 text in row 1 of partition 3"),
        (
            {
                "headers": pa.array(
                    [[], [{"key": "h", "value": b"\xff"}]],
                    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
                )
            },
            "column headers, 'h' is no UTF-8 text in row 1 of partition 3",
        ),
    ],
)
def test_what_is_no_text_names_its_row(column: dict[str, pa.Array], words: str) -> None:
    with pytest.raises(WriteFailed, match=words):
        of_kafka(batch_of(body=[b"1", b"2"], **column))


def test_rows_that_chose_a_queue_are_sent_apart_and_in_order() -> None:
    batch = batch_of(body=[b"1", b"2", b"3", b"4"], queue_id=[3, None, 3, 0], broker=["b", None, "b", None])
    found = {request.queue: request for request in requests(batch)}
    assert {queue: [one.body for one in request.messages] for queue, request in found.items()} == {
        "b/3": [b"1", b"3"],
        "": [b"2"],
        "0": [b"4"],
    }
    assert found[""].lane is None
    assert found["b/3"].lane is not None
    [part] = [found["b/3"].take_part([1])]
    assert (part.queue, part.lane) == ("b/3", found["b/3"].lane)


def test_a_broker_without_a_queue_names_its_row() -> None:
    with pytest.raises(WriteFailed, match="column queue_id is null in row 1 of partition 3: it has a broker"):
        requests(batch_of(body=[b"1", b"2"], queue_id=[1, None], broker=["b", "b"]))


def test_priorities_come_into_their_messages() -> None:
    found = messages(batch_of(body=[b"1", b"2"], priority=pa.array([7, None], pa.int64())))
    assert found == [Message("orders", b"1", priority=7), Message("orders", b"2")]


def messages(batch: pa.RecordBatch) -> list[Message]:
    [request] = requests(batch)
    return list(request.messages)


def batch_of(**columns: Any) -> pa.RecordBatch:  # noqa: ANN401 - arrays, or what arrays are made of
    arrays = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


def everything(*, large: bool) -> pa.RecordBatch:
    text, binary = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
    moments = [datetime(2026, 7, 1, 12, 0, 0, 1999, tzinfo=UTC), None, None]
    return batch_of(
        body=pa.array([b"a", b"b", b"c"], binary),
        keys=pa.array([["k1", None, "k2"], None, []], pa.list_(text)),
        tag=pa.array(["t", None, "u"], text),
        message_group=pa.array([None, None, None], text),
        delivery_timestamp=pa.array(moments, pa.timestamp("us", "Europe/Berlin")),
        properties=pa.array([[("x", "1"), ("y", None)], None, []], pa.map_(text, text)),
        message_id=pa.array([None, "mine", None], text),
    )


@pytest.mark.parametrize("large", [False, True])
def test_every_column_comes_into_its_message(large: bool) -> None:
    [request] = requests(everything(large=large), first_row=10)
    derived = IDS.of_rows(10, 3)
    assert list(request.messages) == [
        Message("orders", b"a", "t", ("k1", "k2"), {"x": "1"}, None, 1_782_907_200_001),
        Message("orders", b"b", keys=[]),
        Message("orders", b"c", "u", []),
    ]
    assert list(request.message_ids) == [derived[0], "mine", derived[2]]
    assert list(request.rows) == [10, 11, 12]


@pytest.mark.parametrize("large", [False, True])
def test_a_slice_is_read_as_the_rows_that_it_has(large: bool) -> None:
    batch = everything(large=large)
    assert messages(batch.slice(1, 2)) == messages(batch)[1:]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_is_sent_as_utf8(kind: pa.DataType) -> None:
    [message] = messages(batch_of(body=pa.array(["zażółć 🦆"], kind), keys=pa.array(["k"], kind)))
    assert message.body == "zażółć 🦆".encode()
    assert message.keys == ("k",)


def test_a_text_of_keys_may_be_null() -> None:
    assert [message.keys for message in messages(batch_of(body=[b"a", b"b"], keys=["k", None]))] == [("k",), ()]


def test_rows_are_cut_into_requests_of_one_topic() -> None:
    batch = batch_of(topic=["a", "b", "a", "a", "b"], body=[b"0", b"1", b"2", b"3", b"4"])
    made = requests(batch, topic=None, request_rows=2)
    assert [(request.topic, list(request.rows)) for request in made] == [("a", [0, 2]), ("a", [3]), ("b", [1, 4])]
    assert all(request.lane is None for request in made)
    assert all(list(request.message_ids) == [IDS.of_rows(row, 1)[0] for row in request.rows] for request in made)


def test_a_message_group_is_always_in_one_lane_and_in_order() -> None:
    groups = [f"group-{number % 7}" for number in range(100)]
    made = requests(batch_of(body=[b"x"] * 100, message_group=groups), request_rows=5)
    lanes: dict[str | None, set[int | None]] = {}
    rows: dict[int | None, list[int]] = {}
    for request in made:
        rows.setdefault(request.lane, []).extend(request.rows)
        for message in request.messages:
            lanes.setdefault(message.message_group, set()).add(request.lane)
    assert all(len(one) == 1 for one in lanes.values())
    assert all(one == sorted(one) for one in rows.values())
    assert sorted(row for one in rows.values() for row in one) == list(range(100))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"body": [b"a", None]}, ["column body is null in row 101 of partition 3"]),
        ({"body": [b"a", b"b"], "topic": ["orders", None]}, ["column topic is null in row 101", "option topic"]),
        ({"body": [b"a", b""]}, ["MESSAGE_BODY_EMPTY", "row 101 of partition 3", "column body"]),
        ({"body": [b"a", b"b"], "tag": [None, "x|y"]}, ["ILLEGAL_MESSAGE_TAG", "row 101", "column tag"]),
        ({"body": [b"a", b"b"], "keys": [["k"], [" "]]}, ["ILLEGAL_MESSAGE_KEY", "row 101", "column keys"]),
        ({"body": [b"a", b"b"], "topic": ["orders", "a b"]}, ["ILLEGAL_TOPIC", "row 101", "column topic"]),
        (
            {"body": [b"a", b"b"], "message_group": [None, "g" * 64]},
            ["ILLEGAL_MESSAGE_GROUP", "row 101", "column message_group"],
        ),
        (
            {
                "body": [b"a", b"b"],
                "message_group": ["g", "g"],
                "delivery_timestamp": [None, datetime(2026, 7, 1, tzinfo=UTC)],
            },
            ["MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", "row 101", "column message_group, delivery_timestamp"],
        ),
    ],
)
def test_a_row_that_is_no_message_is_named(columns: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(WriteFailed) as failed:
        requests(batch_of(**columns), topic=None if "topic" in columns else "orders", first_row=100)
    for word in words:
        assert word in str(failed.value)
