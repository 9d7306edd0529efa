"""A lake in an object store, whose writer is killed: there a commit is a few requests, and a rename two."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from deltalake import DeltaTable

from pyspark_ternmq.pipelines.lake.options import FORMATS, Format
from pyspark_ternmq.pipelines.lake.tables.iceberg import opened_catalog
from ternmq.testing import Stack
from tests.spark.lake_files import numbered, send
from tests.spark.lake_tables import CATALOG
from tests.support.object_store import KEY, REGION, SECRET, ObjectStore
from tests.support.spark_jobs import SparkJob
from tests.support.topic_contents import bodies

NewTopic = Callable[..., str]
MESSAGES, IN_BATCH = 800, 100


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_lake_in_an_object_store_has_each_message_once(
    store: ObjectStore, stack: Stack, new_topic: NewTopic, tmp_path: Path, table_format: Format
) -> None:
    topic, lake = new_topic(queues=4), f"{store.bucket('lakes')}/lake"
    send(stack, topic, *numbered(topic, range(MESSAGES)), together=20)
    tables = _Tables(store, tmp_path, lake, table_format)
    command = ["lake", "--endpoint", stack.endpoint, "--topics", topic, "--out", f"s3a://{lake}", *tables.arguments()]
    command += ["--max-offsets-per-trigger", str(IN_BATCH), *store.spark_settings()]

    def committed() -> set[str]:
        return {name for name in store.names(f"{lake}/_commits") if name.endswith(".json")}

    def staged() -> set[str]:
        """Tries of batches, each in a folder of its own."""
        return {name.partition("/")[0] for name in store.names(f"{lake}/_staging")}

    for number, seen in enumerate((staged, committed)):
        before = seen()
        with SparkJob(tmp_path / f"job-{number}", *command) as job:
            job.wait_until(lambda seen=seen, before=before: len(committed()) > 0 and not seen() <= before)  # type: ignore[misc]
            job.kill9()
    with SparkJob(tmp_path / "last", *command) as job:
        job.finish()
    assert Counter(tables.rows()["message_id"].to_pylist()) == Counter(f"id-{each}" for each in range(MESSAGES))
    assert staged() == set()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_replay_whose_lake_and_checkpoint_are_in_an_object_store_goes_on_after_a_kill(
    store: ObjectStore, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, to, lake = new_topic(queues=4), new_topic(), f"{store.bucket('lakes')}/lake"
    send(stack, topic, *numbered(topic, range(200)), together=20)
    tables = _Tables(store, tmp_path, lake, "delta")
    common = ["--endpoint", stack.endpoint, *store.spark_settings()]
    with SparkJob(
        tmp_path / "lake", "lake", "--topics", topic, "--out", f"s3a://{lake}", *tables.arguments(), *common
    ) as job:
        job.finish()
    DeltaTable(f"s3://{lake}/data", storage_options=tables.storage).delete("message_id = 'id-7'")
    checkpoint = f"{lake}-checkpoint"
    command = ["replay", "--from", f"s3a://{lake}", "--to", to, "--checkpoint", f"s3a://{checkpoint}", "--step", "40"]
    command += [*tables.arguments(), *common]
    with SparkJob(tmp_path / "replay-0", *command) as job:
        job.wait_until(lambda: any(name.startswith("done.json.") for name in store.names(checkpoint)))
        job.kill9()
    with SparkJob(tmp_path / "replay-1", *command) as job:
        job.finish()
    found = {json.loads(body)["id"] for body in bodies(stack.endpoint, to)}
    assert found == set(range(200)) - {7}
    # The last lock is gone, and of each name what counts.
    assert sorted(name.partition(".json")[0] for name in store.names(checkpoint)) == ["done", "plan"]


class _Tables:
    """The lake's tables, for the command, and as their own library reads them."""

    def __init__(self, store: ObjectStore, folder: Path, lake: str, table_format: Format) -> None:
        self._store, self._lake, self._format = store, lake, table_format
        self._catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder / 'catalog.db'}",
            "warehouse": f"s3://{lake}",
            "s3.endpoint": store.endpoint,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.region": REGION,
        }
        self.storage = {"aws_endpoint": store.endpoint, "aws_allow_http": "true"}

    def arguments(self) -> list[str]:
        options: dict[Format, list[Any]] = {
            "parquet": [],
            "delta": [("--storage-option", f"{name}={value}") for name, value in self.storage.items()],
            "iceberg": [
                ("--catalog", CATALOG),
                *(("--catalog-option", f"{name}={value}") for name, value in self._catalog.items()),
            ],
        }
        return ["--format", self._format, *(word for pair in options[self._format] for word in pair)]

    def rows(self) -> pa.Table:
        if self._format == "delta":
            table = DeltaTable(f"s3://{self._lake}/data", storage_options=self.storage)
            return table.to_pyarrow_table()
        if self._format == "iceberg":
            return opened_catalog(CATALOG, self._catalog).load_table("lake.data").scan().to_arrow()
        files = self._store.files()
        return pyarrow.dataset.dataset(f"{self._lake}/data", filesystem=files, partitioning="hive").to_table()
