"""`ternmq pipeline lake`: what is in the topics is in the files once, whatever happens."""

import asyncio
import dataclasses
import gzip
import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_ternmq.pipelines import lake
from pyspark_ternmq.pipelines.hadoop_files import HadoopFiles
from pyspark_ternmq.pipelines.lake.classification import classify_messages, drop_duplicates
from pyspark_ternmq.pipelines.lake.commits import KINDS
from pyspark_ternmq.pipelines.lake.compaction import open_compaction
from pyspark_ternmq.pipelines.lake.lock import LockOwner, checkpoint_lock
from pyspark_ternmq.schema import SCHEMA
from ternmq.testing import Stack
from ternmq_protos.v2 import definition_pb2 as pb
from tests.spark.lake_files import HOUR, ago, ids, numbered, options, rows, send, source_row
from tests.support.embedded import message
from tests.support.spark_jobs import batches_done
from tests.support.until import until

# Several runs of Spark each, on a machine that may have other things to do.
pytestmark = pytest.mark.timeout(600)
NewTopic = Callable[..., str]


def test_everything_arrives_in_its_place(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    orders, payments = new_topic(queues=4), new_topic(queues=2)
    now, long_ago, to_come = datetime.now(UTC), ago(timedelta(days=3)), ago(-timedelta(days=3))
    # The server unpacks what it can; a body that would be larger than it allows it leaves to who reads.
    broken = gzip.compress(bytes(5 * 1024 * 1024))[:-8]
    send(stack, orders, *numbered(orders, range(100)), together=10)
    send(stack, orders, *numbered(orders, range(90, 95)))  # the same ids again
    send(stack, orders, *numbered(orders, range(200, 203), born_timestamp=long_ago))
    send(stack, orders, *numbered(orders, range(300, 302), born_timestamp=to_come))
    send(stack, orders, message(orders, broken, message_id="broken", body_encoding=pb.GZIP))
    send(stack, payments, *numbered(payments, range(20)))  # ids are a topic's own
    send(stack, payments, message(payments, b"no json", message_id="no json"))
    wanted = options(stack, tmp_path, orders, payments, json_schema="id long")
    report = lake.run(spark, wanted)
    assert (report.rows, report.late, report.malformed, report.duplicates) == (120, 3, 4, 5)
    assert report.batches == 1
    assert report.files == len(list(tmp_path.glob("*/topic=*/date=*/hour=*/*.parquet")))
    data = rows(spark, tmp_path)
    assert Counter((row.topic, row.json.id) for row in data) == Counter(
        [*((orders, number) for number in range(100)), *((payments, number) for number in range(20))]
    )
    assert {(row.date.isoformat(), row.hour) for row in data} <= {
        (time.date().isoformat(), time.hour) for time in (now, datetime.now(UTC))
    }
    assert ids(spark, tmp_path, "late") == Counter(["id-200", "id-201", "id-202"])
    aside = {row.message_id: row.reason.split(":")[0] for row in rows(spark, tmp_path, "malformed")}
    assert aside == {"id-300": "clock", "id-301": "clock", "broken": "body", "no json": "json"}
    (kept,) = [row for row in rows(spark, tmp_path, "malformed") if row.message_id == "broken"]
    assert bytes(kept.body) == broken
    columns = [name for name in SCHEMA.names if name != "topic"]
    assert data[0].asDict().keys() == {*columns, "json", "reason", "topic", "date", "hour"}


def test_a_batch_that_is_mostly_malformed_is_an_error_and_is_not_written(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(stack, topic, *numbered(topic, range(4)))
    send(stack, topic, *(message(topic, b'{"id": "x"}', message_id=f"wrong-{number}") for number in range(6)))
    wanted = options(stack, tmp_path, topic, json_schema="id long")
    with pytest.raises(lake.TooManyMalformed) as refused:
        lake.run(spark, wanted)
    # One line, and not Spark's error around it.
    assert refused.value.__cause__ is None
    assert str(refused.value) == (
        "6 of 10 rows of batch 0 are malformed, more than 0.5 of them: nothing of the batch was written. Most often: "
        "6 x json: field id is a string, not bigint. Mend the schema, or allow more (--max-malformed)"
    )
    assert rows(spark, tmp_path) == rows(spark, tmp_path, "malformed") == []
    report = lake.run(spark, dataclasses.replace(wanted, max_malformed=0.6))
    assert (report.rows, report.malformed) == (4, 6)


def test_a_second_run_takes_what_is_new_and_remembers_ids(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(stack, topic, *numbered(topic, range(10)))
    assert lake.run(spark, options(stack, tmp_path, topic)).rows == 10
    assert lake.run(spark, options(stack, tmp_path, topic)).batches == 0
    send(stack, topic, *numbered(topic, range(5, 15)))
    report = lake.run(spark, options(stack, tmp_path, topic))
    assert (report.rows, report.duplicates) == (5, 5)
    assert ids(spark, tmp_path) == Counter(f"id-{number}" for number in range(15))


def test_ids_are_forgotten_after_the_window(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    # Spark learns in a batch how late it is, and forgets in the one after.
    found = []
    for number in (1, 2, 3, 1):
        send(stack, topic, *numbered(topic, range(number, number + 1)))
        report = lake.run(spark, options(stack, tmp_path, topic, dedup_window=timedelta(milliseconds=2)))
        found.append((report.rows, report.duplicates))
    assert found == [(1, 0)] * 4


def test_messages_without_an_id_and_without_a_window_are_all_kept(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    frame = spark.createDataFrame(
        [source_row(offset=i, message_id=id_) for i, id_ in enumerate(["", "", "a", "a"])], SCHEMA
    )
    stream_in = tmp_path / "in"
    frame.write.parquet(str(stream_in))
    stream = spark.readStream.schema(SCHEMA).parquet(str(stream_in))
    kept = deduplicated_ids(spark, stream, HOUR, tmp_path)
    assert kept == ["", "", "a"]
    send(stack, topic, *numbered(topic, range(1)), *numbered(topic, range(1)))
    assert lake.run(spark, options(stack, tmp_path / "lake", topic, dedup_window=timedelta(0))).rows == 2


def deduplicated_ids(spark: SparkSession, stream: DataFrame, window: timedelta, folder: Path) -> list[str]:
    found = list[str]()

    def take(batch: DataFrame, number: int) -> None:
        del number
        found.extend(row.message_id for row in batch.collect())

    frame = drop_duplicates(classify_messages(stream, event_time="born", lateness=HOUR, json_schema=None), window)
    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    return sorted(found)


def test_a_batch_that_spark_runs_again_is_there_once(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(stack, topic, *numbered(topic, range(10)))
    lake.run(spark, options(stack, tmp_path, topic))
    # As if the driver had died between its commit and Spark's, without what it remembered.
    for path in [*(tmp_path / "_checkpoint/commits").iterdir(), *(tmp_path / "_checkpoint/state").rglob("*.delta")]:
        path.unlink()
    send(stack, topic, *numbered(topic, range(5, 15)))
    report = lake.run(spark, options(stack, tmp_path, topic))
    assert (report.rows, report.duplicates) == (5, 5)
    assert ids(spark, tmp_path) == Counter(f"id-{number}" for number in range(15))


def test_a_run_on_a_machine_whose_clock_is_behind_loses_nothing(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, last_ms = new_topic(), 0
    for start in (0, 10):
        send(stack, topic, *numbered(topic, range(start, start + 11)))
        assert lake.run(spark, options(stack, tmp_path, topic)).malformed == 0
        # As if the clock had been two days ahead: the next run has a time long before that of this one.
        (manifest,) = (tmp_path / "_commits").glob("*.json")
        found = json.loads(manifest.read_text())
        assert found["taken_ms"] >= last_ms
        last_ms = found["taken_ms"] + 2 * 86_400_000
        rewritten(manifest, json.dumps({**found, "taken_ms": last_ms}))
    assert ids(spark, tmp_path) == Counter(f"id-{number}" for number in range(21))


def rewritten(path: Path, text: str) -> None:
    """Change a file that Hadoop wrote, which keeps a checksum beside it."""
    path.write_text(text)
    path.with_name(f".{path.name}.crc").unlink()


def test_two_checkpoints_may_share_a_lake(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topics = [new_topic(), new_topic()]
    for topic in topics:
        send(stack, topic, *numbered(topic, range(10)))
        lake.run(spark, options(stack, tmp_path / "lake", topic, checkpoint=str(tmp_path / topic)))
    assert Counter(row.topic for row in rows(spark, tmp_path / "lake")) == Counter(dict.fromkeys(topics, 10))


def test_compaction_keeps_every_row(spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()
    long_ago = ago(timedelta(days=3))
    for start in range(0, 40, 20):
        send(stack, topic, *numbered(topic, range(start, start + 20)))
        send(stack, topic, *numbered(topic, range(100 + start, 120 + start), born_timestamp=long_ago))
        # The columns of a lake may change from one run to the next.
        schema = "id long" if start < 20 else "id long, more string"
        lake.run(spark, options(stack, tmp_path, topic, json_schema=schema))
    before = {kind: sorted_rows(spark, tmp_path, kind) for kind in KINDS}
    now = datetime.now(UTC) + timedelta(hours=3)
    report = lake.compact(spark, str(tmp_path), lake.CompactionOptions(min_files=2), now=now)
    assert {kind: sorted_rows(spark, tmp_path, kind) for kind in KINDS} == before
    assert report.added == report.partitions == len(list(tmp_path.glob("*/topic=*/date=*/hour=*/*.parquet")))
    assert report.removed > report.added
    assert lake.compact(spark, str(tmp_path), lake.CompactionOptions(min_files=2), now=now).removed == 0
    send(stack, topic, *numbered(topic, range(40, 50)))
    lake.run(spark, options(stack, tmp_path, topic, json_schema="id long"))
    assert ids(spark, tmp_path) == Counter(f"id-{number}" for number in range(50))


def test_a_run_compacts_what_is_old_if_it_is_told(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    long_ago = ago(timedelta(days=3))
    send(stack, topic, *numbered(topic, range(40), born_timestamp=long_ago), together=10)
    wanted = options(
        stack,
        tmp_path,
        topic,
        lateness=timedelta(days=9),
        max_offsets_per_trigger=10,
        compaction=lake.CompactionOptions(min_files=2),
    )
    report = lake.run(spark, wanted)
    assert report.compacted_files == report.files > 1
    assert ids(spark, tmp_path) == Counter(f"id-{number}" for number in range(40))
    assert len(list(tmp_path.glob("data/*/*/*/*.parquet"))) == 1


def test_a_run_with_a_trigger_goes_on_and_compacts_now_and_then(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    long_ago = ago(timedelta(days=3))
    wanted = options(
        stack,
        tmp_path,
        topic,
        lateness=timedelta(days=9),
        trigger=timedelta(milliseconds=100),
        compaction=lake.CompactionOptions(min_files=2),
        compact_every_batches=2,
    )
    with ThreadPoolExecutor() as pool:
        running = pool.submit(lake.run, spark, wanted)
        try:
            for batch in range(2):
                send(stack, topic, *numbered(topic, range(10 * batch, 10 * batch + 10), born_timestamp=long_ago))
                wait_until(lambda: batches_done(tmp_path / "_checkpoint") > batch or running.done())  # noqa: B023
        finally:
            wait_until(lambda: has_stopped(spark, f"lake {tmp_path}") or running.done())
        report = running.result()
    assert (report.rows, report.batches, report.compacted_files) == (20, 2, report.files)
    assert ids(spark, tmp_path) == Counter(f"id-{number}" for number in range(20))
    assert len(list(tmp_path.glob("data/*/*/*/*.parquet"))) == 1


def has_stopped(spark: SparkSession, name: str) -> bool:
    """Stop the query of this name, if it has started by now."""
    found = [query for query in spark.streams.active if query.name == name]
    for query in found:
        query.stop()
    return bool(found)


def wait_until(is_true: Callable[[], bool]) -> None:
    asyncio.run(asyncio.wait_for(until(is_true), 120))


def test_a_second_compaction_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(spark)
    with (
        open_compaction(files, files.qualify_path(str(tmp_path)), LockOwner.this_process()),
        pytest.raises(lake.Locked, match="compacts this lake"),
    ):
        lake.compact(spark, str(tmp_path), lake.CompactionOptions())
    assert lake.compact(spark, str(tmp_path), lake.CompactionOptions()).removed == 0


def test_a_checkpoint_is_for_one_process(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, files = new_topic(), HadoopFiles(spark)
    send(stack, topic, *numbered(topic, range(3)))
    checkpoint = str(tmp_path / "_checkpoint")
    with (
        checkpoint_lock(files, checkpoint),
        pytest.raises(lake.Locked, match="with this checkpoint"),
    ):
        lake.run(spark, options(stack, tmp_path, topic))
    assert not (tmp_path / "data").exists()
    lake.run(spark, options(stack, tmp_path, topic))
    assert ids(spark, tmp_path) == Counter(f"id-{number}" for number in range(3))


def sorted_rows(spark: SparkSession, out: Path, kind: str) -> list[str]:
    """All rows as text, whatever columns their files have."""
    if not (out / kind).is_dir():
        return []
    frame = spark.read.option("mergeSchema", "true").parquet(str(out / kind))
    return sorted(row.json for row in frame.selectExpr("to_json(struct(*)) AS json").collect())
