"""Bodies in Avro and Protobuf as columns, in queries of one's own and in the lake."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.timestamp_pb2 import DESCRIPTOR
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_ternmq.decoding import WrongSchema, avro, protobuf
from pyspark_ternmq.decoding.avro_format import AvroFormat
from pyspark_ternmq.decoding.avro_schema import AvroSchema
from pyspark_ternmq.decoding.columns import decode_column
from pyspark_ternmq.decoding.schema_registry.registered_avro import RegisteredAvro
from pyspark_ternmq.decoding.schema_registry.registry import RegistryAddress
from pyspark_ternmq.decoding.schema_registry.subject import AvroOfSubject
from pyspark_ternmq.pipelines import lake
from ternmq.testing import Stack
from ternmq_protos.v2 import definition_pb2 as pb
from tests.spark.lake_files import numbered, options, rows, send
from tests.spark.stream_support import NewTopic
from tests.spark.test_lake_classification import sorted_out
from tests.support.embedded import message
from tests.support.schema_registry import schema_registry

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "lines", "type": {"type": "array", "items": "int"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
    ],
}
AT = datetime(2026, 8, 1, 7, tzinfo=UTC)


def order(number: int) -> bytes:
    out = io.BytesIO()
    row = {"id": number, "note": None, "at": AT, "lines": [1, 2], "counts": {"a": 1}}
    fastavro.schemaless_writer(out, ORDER, row)
    return out.getvalue()


def test_avro_in_a_query_of_ones_own(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, order(7)), (2, b"\x01"), (3, None)], "number int, body binary")
    found_in = frame.select("number", avro("body", json.dumps(ORDER)).alias("d")).orderBy("number")
    found = found_in.collect()
    value = found[0].d.value
    assert (value.id, value.note, value.lines, value.counts) == (7, None, [1, 2], {"a": 1})
    assert found_in.selectExpr("unix_seconds(d.value.at)").first() == (round(AT.timestamp()),)
    assert [row.d.problem for row in found] == [None, "it ends too early", None]
    assert [row.d.value is None for row in found] == [False, True, True]


def test_protobuf_in_a_query_of_ones_own(spark: SparkSession) -> None:
    own = FileDescriptorSet()
    DESCRIPTOR.CopyToProto(own.file.add())
    event = own.file.add(name="event.proto", package="shop", syntax="proto3", dependency=[DESCRIPTOR.name])
    event.message_type.add(name="Event").field.add(
        name="at", number=1, type=11, label=1, type_name=".google.protobuf.Timestamp"
    )
    frame = spark.createDataFrame([(1, b"\x0a\x02\x08\x05"), (2, b"\xff")], "number int, body binary")
    event_column = protobuf("body", own.SerializeToString(), "shop.Event").alias("d")
    found = frame.select("number", event_column).orderBy("number")
    read = found.selectExpr("unix_seconds(d.value.at)", "d.problem").collect()
    assert [tuple(row) for row in read] == [(5, None), (None, "it is no shop.Event")]


def test_what_is_no_avro_of_the_schema_is_malformed(spark: SparkSession) -> None:
    bodies = {order(1): None, b"": "avro: it ends too early", order(2) + b"!": "avro: 1 bytes follow"}
    found = sorted_out(spark, *({"body": body} for body in bodies), decoding=AvroFormat(AvroSchema(json.dumps(ORDER))))
    assert [row[3] for row in found] == list(bodies.values())
    unpacked = sorted_out(
        spark, {"corrupt": "no gzip", "body": b"\x1f"}, decoding=AvroFormat(AvroSchema(json.dumps(ORDER)))
    )
    assert unpacked[0][3] == "body: no gzip"


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_a_lake_of_avro(
    spark: SparkSession,
    stack: Stack,
    new_topic: NewTopic,
    tmp_path: Path,
    table_format: Any,  # noqa: ANN401
) -> None:
    topic = new_topic()
    good = [message(topic, order(number), message_id=f"id-{number}") for number in range(20)]
    send(stack, topic, *good, *numbered(topic, range(100, 103)))
    wanted = options(stack, tmp_path, topic, decoding=AvroFormat(AvroSchema(json.dumps(ORDER))), format=table_format)
    report = lake.run(spark, wanted)
    assert (report.rows, report.malformed) == (20, 3)
    assert sorted(row.avro.id for row in rows(spark, tmp_path)) == list(range(20))
    aside = rows(spark, tmp_path, "malformed")
    assert all(row.avro is None and row.reason.startswith("avro: ") for row in aside)
    assert {bytes(row.body) for row in aside} == {json.dumps({"id": number}).encode() for number in range(100, 103)}
    # As other engines see them.
    file = next(tmp_path.glob("data/topic=*/date=*/hour=*/*.parquet"))
    assert pyarrow.parquet.read_table(file)["avro"][0].as_py()["at"] == AT


def test_a_schema_that_can_be_no_column_is_refused_before_the_start(
    spark: SparkSession, stack: Stack, tmp_path: Path
) -> None:
    recursive = '{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}'
    with pytest.raises(WrongSchema, match="L contains itself"):
        lake.run(spark, options(stack, tmp_path, "a", decoding=AvroFormat(AvroSchema(recursive))))


def test_a_lake_of_a_subject_of_a_schema_registry(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    with schema_registry() as registry:
        registry.add(1, json.dumps(ORDER), subject="orders-value")
        wanted = options(
            stack, tmp_path, topic, decoding=AvroOfSubject("orders-value", RegistryAddress(registry.url, retry_s=0.5))
        )
        send(stack, topic, *framed(topic, 1, range(10)), *framed(topic, 99, range(200, 202)))
        report = lake.run(spark, wanted)
        assert (report.rows, report.malformed) == (10, 2)
        assert {row.reason for row in rows(spark, tmp_path, "malformed")} == {
            "avro: the schema registry has no schema 99"
        }
        # What is registered later changes no column.
        later = {**ORDER, "fields": [*ORDER["fields"], {"name": "more", "type": "int", "default": 5}]}
        registry.add(2, json.dumps(later), subject="orders-value")
        send(stack, topic, *framed(topic, 2, range(10, 12), b"\x0a"))
        registry.answers += [(503, b"")] * 20
        # Not malformed: the batch is an error, and comes again.
        with pytest.raises(PySparkException, match=r"schema registry .* is away: it answers 503"):
            lake.run(spark, wanted)
        registry.answers.clear()
        report = lake.run(spark, wanted)
        assert (report.rows, report.malformed) == (2, 0)
        assert sorted(row.avro.id for row in rows(spark, tmp_path)) == list(range(12))
        assert all("more" not in row.avro for row in rows(spark, tmp_path))


def test_keys_of_a_registry_are_in_no_text_of_a_plan(spark: SparkSession) -> None:
    registry = RegistryAddress("https://registry", user="who", password="hush-hush")
    frame = spark.createDataFrame([(b"",)], "body binary")
    plan = frame.select(decode_column(frame["body"], RegisteredAvro(AvroSchema(json.dumps(ORDER)), registry)))
    execution = plan._jdf.queryExecution()
    assert "decode_bodies(" in execution.toString()
    assert "hush" not in execution.toString() + execution.logical().toJSON() + execution.executedPlan().toJSON()


def framed(topic: str, schema_id: int, numbers: range, rest: bytes = b"") -> list[pb.Message]:
    return [
        message(topic, b"\0" + schema_id.to_bytes(4, "big") + order(number) + rest, message_id=f"id-{number}")
        for number in numbers
    ]
