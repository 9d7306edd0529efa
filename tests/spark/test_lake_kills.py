"""`ternmq pipeline lake` and `compact` as processes that are killed in the middle of their work."""

import itertools
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_ternmq.pipelines import lake
from pyspark_ternmq.pipelines.lake.options import FORMATS, Format
from ternmq.testing import Stack
from tests.spark.lake_files import ago, ids, numbered, options, send
from tests.spark.lake_tables import arguments_of, arrow, table_options
from tests.support.spark_jobs import SparkJob, batches_done, last_batch

NewTopic = Callable[..., str]
MESSAGES = 1000


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_driver_that_is_killed_at_any_moment_loses_and_doubles_nothing(
    stack: Stack, new_topic: NewTopic, tmp_path: Path, table_format: Format
) -> None:
    topic = new_topic(queues=4)
    # Each of three kills is in another of the first batches; there are more, however fast they are.
    send(stack, topic, *numbered(topic, range(MESSAGES)), together=20)
    out, tables = tmp_path / "lake", table_options(table_format, tmp_path)
    command = ("lake", "--endpoint", stack.endpoint, "--topics", topic, "--out", str(out))
    more = ("--max-offsets-per-trigger", "100", "--dedup-window", "1h", *arguments_of(tables))

    def found() -> Counter[str]:
        return Counter(arrow(out, tables)["message_id"].to_pylist())

    def staged() -> int:
        return last_batch(out / "_staging", r".*-(\d+)\..*")

    def committed() -> int:
        return last_batch(out / "_commits", r".*-(\d+)\.json")

    def moments() -> Iterator[Callable[[], bool]]:
        """In the middle of a write; between our commit and Spark's; and right after Spark's."""
        done = batches_done(out / "_checkpoint")
        yield lambda: staged() > done
        done = batches_done(out / "_checkpoint")
        yield lambda: committed() > done
        done = batches_done(out / "_checkpoint")
        yield lambda: batches_done(out / "_checkpoint") > done + 1

    for number, has_come in enumerate(moments()):
        with SparkJob(tmp_path / f"job-{number}", *command, *more) as job:
            job.wait_until(has_come)
            job.kill9()
        # Before the first batch there is no table.
        assert batches_done(out / "_checkpoint") == 0 or max(found().values(), default=1) == 1
    send(
        stack, topic, *numbered(topic, range(MESSAGES - 100, MESSAGES + 100)), together=20
    )  # what a producer that was killed sends again
    with SparkJob(tmp_path / "last", *command, *more, "--json") as job:
        report = json.loads(job.finish())
    assert found() == Counter(f"id-{number}" for number in range(MESSAGES + 100))
    assert report["duplicates"] == 100
    assert list((out / "_staging").glob("*")) == []


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_compaction_that_is_killed_is_healed_by_the_lake(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, out = new_topic(), tmp_path / "lake"
    births = [ago(timedelta(days=3, hours=hour)) for hour in range(4)]
    for start in range(0, 160, 40):
        for offset, born in zip(itertools.count(start, 10), births, strict=False):
            send(stack, topic, *numbered(topic, range(offset, offset + 10), born_timestamp=born))
        lake.run(spark, options(stack, out, topic, lateness=timedelta(days=9)))
    with SparkJob(tmp_path / "job", "compact", "--out", str(out), "--min-files", "2") as job:
        job.wait_until(lambda: any(path.name.startswith("compact-") for path in (out / "data").glob("*/*/*/*.parquet")))
        job.kill9()
    lake.run(spark, options(stack, out, topic))
    assert ids(spark, out) == Counter(f"id-{number}" for number in range(160))
    with SparkJob(tmp_path / "again", "compact", "--out", str(out), "--min-files", "2") as job:
        job.finish()
    assert ids(spark, out) == Counter(f"id-{number}" for number in range(160))
    assert len(list(out.glob("data/*/*/*/*.parquet"))) == 4


@pytest.mark.slow
def test_an_error_of_the_broker_is_one_line(tmp_path: Path) -> None:
    command = ("lake", "--endpoint", "127.0.0.1:1", "--source-option", "retryTimeoutMs=0", "--topics", uuid.uuid4().hex)
    with SparkJob(tmp_path, *command, "--out", str(tmp_path / "lake")) as job:
        assert job.process.wait(300) == 1
    said = [line for line in job.errors.read_text().splitlines() if not line.startswith("lake: no batch has ended yet")]
    assert len(said) == 1
    assert said[0].startswith("ternmq: ")
    assert "Connection refused" in said[0]
    assert job.output.read_text() == ""
