"""Pipelines on the stack's Spark cluster: driver, master and worker are containers, and messages come by the load
balancer.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from ternmq import Message
from ternmq.blocking import Producer
from tests.containers.compose import Stack, docker, inspected

# The first start builds all images, and downloads Spark for one of them.
pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

BODY = b"x" * 300
PIPELINE_TIMEOUT_S = 400
# `lake: 2,000 rows  812 rows/s  batch 0  lag 4,000`
ROWS = re.compile(r"^lake: ([\d,]+) rows")


def test_the_workers_executor_reads_a_topic_and_the_lake_has_each_message_once(stack: Stack, tmp_path: Path) -> None:
    sent = send(stack, "orders", 2000)
    stack.run_in("spark-worker", "mkdir", "/lake/events")
    events = {"enabled": "true", "dir": "file:///lake/events", "rolling.enabled": "false", "compress": "false"}
    settings = [word for name, value in events.items() for word in ("--conf", f"spark.eventLog.{name}={value}")]
    said = stack.compose(
        *("run", "--rm", "pipeline", "lake", "--topics", "orders", "--out", "/lake/orders", *settings),
        timeout_s=PIPELINE_TIMEOUT_S,
    )
    assert "2,000 rows to /lake/orders" in said
    assert ids(stack, "/lake/orders", tmp_path) == sorted(sent)
    (network,) = inspected(stack.container("spark-worker"))["NetworkSettings"]["Networks"].values()
    tasks = ended_tasks(stack, tmp_path)
    assert {task["Task Info"]["Host"] for task in tasks} == {network["IPAddress"]}
    assert "driver" not in {task["Task Info"]["Executor ID"] for task in tasks}


def test_a_worker_that_is_killed_in_the_middle_costs_no_message_and_repeats_none(stack: Stack, tmp_path: Path) -> None:
    sent = send(stack, "payments", 12_000)
    lake = ("lake", "--topics", "payments", "--out", "/lake/payments", "--max-offsets-per-trigger", "2000")
    with stack.begun("run", "--rm", "pipeline", *lake) as driver:
        wait_for_rows(driver)
        stack.kill("spark-worker")
        stack.start("spark-worker")
        said, _ = driver.communicate(timeout=PIPELINE_TIMEOUT_S)
    assert driver.returncode == 0, said[-5000:]
    assert ids(stack, "/lake/payments", tmp_path) == sorted(sent)


def send(stack: Stack, topic: str, count: int) -> set[str]:
    """The ids of so many messages."""
    with Producer(stack.endpoint, topics=[topic], max_attempts=10) as producer:
        receipts = producer.send_many(Message(topic, BODY) for _ in range(count))
    return {receipt.message_id for receipt in receipts}


def wait_for_rows(driver: subprocess.Popen[str]) -> None:
    """Until the pipeline says that it has written some, and isn't done."""
    assert driver.stdout is not None
    said = []
    for line in driver.stdout:
        said.append(line)
        if (match := ROWS.match(line)) and match[1] != "0":
            return
    raise AssertionError(f"the pipeline ended early: {said[-40:]}")


def ids(stack: Stack, lake: str, folder: Path) -> list[str]:
    """Those in the lake's files, sorted."""
    docker("cp", f"{stack.container('spark-worker')}:{lake}/data", str(folder))
    written = pyarrow.dataset.dataset(folder / "data", partitioning="hive").to_table(columns=["message_id"])
    return sorted(written["message_id"].to_pylist())


def ended_tasks(stack: Stack, folder: Path) -> list[dict[str, Any]]:
    """What Spark noted of each task."""
    docker("cp", f"{stack.container('spark-worker')}:/lake/events", str(folder))
    (log,) = (path for path in (folder / "events").rglob("*") if path.is_file() and not path.name.endswith(".crc"))
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [event for event in events if event["Event"] == "SparkListenerTaskEnd"]
