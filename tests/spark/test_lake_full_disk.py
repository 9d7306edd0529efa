"""`ternmq pipeline lake` whose disk gets full: it ends with a line that says so, and goes on when there is room."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_ternmq.pipelines.lake.options import Format
from ternmq.testing import Stack
from tests.spark.lake_files import numbered, send
from tests.spark.lake_tables import arguments_of, arrow, table_options
from tests.support.full_disk import Ballast, small_disk
from tests.support.spark_jobs import SparkJob, batches_done

NewTopic = Callable[..., str]
DISK_BYTES = 32 << 20
MESSAGES = 600
# For a batch that has begun: less than its files take, so that any step may be the one that fails.
ROOM_BYTES = (0, 16 << 10)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_a_full_disk_ends_a_lake_plainly_and_it_goes_on_when_there_is_room(
    stack: Stack, new_topic: NewTopic, tmp_path: Path, table_format: Format
) -> None:
    topic = new_topic(queues=4)
    send(stack, topic, *numbered(topic, range(MESSAGES)), together=20)
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        ballast = Ballast(disk)
        out, tables = disk / "lake", table_options(table_format, tmp_path)
        command = ("lake", "--endpoint", stack.endpoint, "--topics", topic, "--out", str(out))
        more = ("--max-offsets-per-trigger", "50", "--dedup-window", "1h", *arguments_of(tables))
        for number, room in enumerate(ROOM_BYTES):
            with SparkJob(tmp_path / f"job-{number}", *command, *more) as job:
                done = batches_done(out / "_checkpoint")
                job.wait_until(lambda: batches_done(out / "_checkpoint") > done)  # noqa: B023 - called at once
                ballast.fill(leave_bytes=room)
                assert job.process.wait(300) == 1, job.tail()
                said = job.errors.read_text()
            assert "No space left on device" in said, said
            assert "Traceback" not in said
            ballast.remove()
        with SparkJob(tmp_path / "last", *command, *more) as job:
            job.finish()
        assert Counter(arrow(out, tables)["message_id"].to_pylist()) == Counter(f"id-{n}" for n in range(MESSAGES))
        assert list((out / "_staging").glob("*")) == []
