"""A data directory that is removed under a server: nothing more is acknowledged, and all that was can be saved."""

import asyncio
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path

import pytest

from ternmq import InternalError, Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.support.stack import Stack
from tests.support.until import until_in_thread

pytestmark = pytest.mark.slow
WAIT = timedelta(seconds=5)


def readiness(stack: Stack) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{stack.http}/health/ready", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ternmq_command.main", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def remove(folder: Path) -> None:
    """Remove it, also if the server writes a file into it meanwhile."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


def consumer_of(stack: Stack) -> SimpleConsumer:
    return SimpleConsumer(stack.grpc, "g", {"orders": "*"}, await_duration=WAIT)


def received(stack: Stack, count: int) -> set[bytes]:
    bodies: set[bytes] = set()
    with consumer_of(stack) as consumer:
        while len(bodies) < count:
            bodies |= {bytes(view.body) for view in consumer.receive()}
    return bodies


@pytest.mark.parametrize("options", [(), ("--workers", "1")], ids=["one process", "workers"])
async def test_what_was_acknowledged_is_saved_and_a_second_start_is_refused(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with Stack(tmp_path / "first", "--init-user", "root", *options) as stack:
        with Producer(stack.grpc, topics=["orders"]) as producer:
            producer.send_many([Message("orders", b"%d" % number) for number in range(5)])
            with consumer_of(stack) as consumer:
                (done,) = consumer.receive(max_messages=1)
                consumer.ack(done)
            journal = stack.data_dir / "store" / "consumption" / "journal"
            async with asyncio.timeout(20):
                await until_in_thread(lambda: b'"g","orders"' in journal.read_bytes().replace(b" ", b""))
                remove(stack.data_dir)
                await until_in_thread(lambda: readiness(stack)[0] == 503)
            with pytest.raises(InternalError, match="gone"):
                producer.send(Message("orders", b"lost"))
        why = json.loads(readiness(stack)[1])["status"]
        pid = why.partition("process ")[2].partition(" ")[0]
        second = command("up", "--data-dir", str(stack.data_dir), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
        assert (second.returncode, second.stdout) == (1, "")
        assert f"process {pid}" in second.stderr
        assert not stack.data_dir.exists()
        saved = Stack(tmp_path / "second")
        rescue = command("store", "rescue", pid, str(saved.data_dir), "--json")
        assert rescue.returncode == 0, rescue.stderr
        assert json.loads(rescue.stdout)["messages"] == 5
        assert (saved.data_dir / "secrets.key").is_file(), "without which nobody could sign in"
        assert stack.terminate() == 0
        assert not stack.data_dir.exists()
    with saved:
        assert received(saved, 4) == {b"%d" % number for number in range(5)} - {bytes(done.body)}


async def test_the_registry_is_missed_too(stack: Stack) -> None:
    database = stack.data_dir / "registry.db"
    database.unlink()
    async with asyncio.timeout(20):
        await until_in_thread(lambda: readiness(stack)[0] == 503)
    assert f"{database} is gone" in readiness(stack)[1]
