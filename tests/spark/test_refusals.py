"""What a user sees of a refusal: our words in the first line that Spark says, and no traceback of ours."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ternmq.testing import Stack
from tests.spark.sink_support import numbered, save
from tests.spark.stream_support import NewTopic, stream, to_files


def said(act: Callable[[], object]) -> str:
    with pytest.raises(PySparkException) as raised:
        act()
    return str(raised.value)


def test_a_refusal_is_in_the_first_line_and_without_a_traceback(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    def read(topic: str, **options: str) -> None:
        spark.read.format("ternmq").options(endpoint=stack.endpoint, **options).load(topic).collect()

    topic = new_topic(type="fifo", queues=1)
    beyond = json.dumps({topic: {"0": 17}})
    cases: dict[str, Callable[[], object]] = {
        "did you mean 'tag'?": lambda: read(topic, tags="a"),
        "there is no topic 'ordres'": lambda: read("ordres"),
        "offset 17 is not there": lambda: read(topic, startingOffsets=beyond),
        "is not a whole number": lambda: to_files(
            stream(spark, stack.endpoint, topic, minPartitions="x"), tmp_path / "1"
        ).awaitTermination(),
        "there is no topic 'odrers'": lambda: to_files(
            stream(spark, stack.endpoint, "odrers"), tmp_path / "2"
        ).awaitTermination(),
        "did you mean 'batchSize'?": lambda: save(numbered(spark, 1), stack.endpoint, topic=topic, batchsiz="1"),
        "takes FIFO messages, this one is NORMAL": lambda: save(numbered(spark, 1), stack.endpoint, topic=topic),
    }
    for words, act in cases.items():
        text = said(act)
        assert "Traceback" not in text, text
        # Of a task Spark says first that it was Python.
        assert words in "".join(text.splitlines()[:2]), text
