"""Messages for a lake, sent as they are, and what is found in its files afterwards."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession

from pyspark_ternmq.pipelines import lake
from pyspark_ternmq.pipelines.connection import PipelineConnection
from pyspark_ternmq.schema import SCHEMA
from ternmq.testing import Stack
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import RawClient, message, moment

STORED = datetime(2026, 8, 1, 7, 59, 59, 900_000, tzinfo=UTC)
HOUR = timedelta(hours=1)


def ago(span: timedelta) -> Timestamp:
    """That long before now, as the wire has it."""
    return moment(round((datetime.now(UTC) - span).timestamp() * 1000))


def send(stack: Stack, topic: str, *messages: pb.Message, together: int = 50) -> None:
    """Store messages as they are, with whatever a client would not send."""

    async def run() -> None:
        async with RawClient(stack.endpoint) as client:
            for start in range(0, len(messages), together):
                answer = await client.call("SendMessage", messages=messages[start : start + together])
                assert answer.status.code == pb.OK, answer.status.message

    asyncio.run(run())


def numbered(topic: str, numbers: Iterator[int] | range, **system: Any) -> list[pb.Message]:  # noqa: ANN401
    return [
        message(topic, json.dumps({"id": number}).encode(), **{"message_id": f"id-{number}", **system})
        for number in numbers
    ]


def options(stack: Stack, out: Path, *topics: str, **more: Any) -> lake.LakeOptions:  # noqa: ANN401
    return lake.LakeOptions(connection=PipelineConnection(endpoint=stack.endpoint), topics=topics, out=str(out), **more)


def rows(spark: SparkSession, out: Path, kind: str = "data") -> list[Row]:
    return spark.read.parquet(str(out / kind)).collect() if (out / kind).is_dir() else []


def ids(spark: SparkSession, out: Path, kind: str = "data") -> Counter[str]:
    return Counter(row.message_id for row in rows(spark, out, kind))


def source_row(**values: object) -> tuple[object, ...]:
    row = {
        "topic": "orders",
        "broker": "b",
        "queue_id": 0,
        "offset": 0,
        "message_id": "m",
        "keys": [],
        "body": b'{"id": 1}',
        "properties": {},
        "born_timestamp": STORED,
        "store_timestamp": STORED,
        "delivery_attempt": 1,
        **values,
    }
    return tuple(row.get(name) for name in SCHEMA.names)
