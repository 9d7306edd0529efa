"""A disk that takes no writes, though it has room: the broker says so, refuses, and heals by itself."""

import asyncio
import resource
import subprocess
from pathlib import Path

import pytest

from ternmq import ClientError, Message
from ternmq.blocking import Producer
from tests.e2e.test_lost_data_dir import command, readiness, received
from tests.support.full_disk import small_disk
from tests.support.stack import Stack
from tests.support.until import until_in_thread

pytestmark = pytest.mark.slow


LIMIT_BYTES = 512 * 1024


def limit_files(pid: int, size: int) -> None:
    """Writes behind that position of any file fail from now on (EFBIG), as on a disk that has room by its figures."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


async def test_a_disk_that_takes_no_writes_is_said_once_and_heals(stack: Stack) -> None:
    with Producer(stack.grpc, topics=["orders"]) as producer:
        producer.send(Message("orders", b"x" * LIMIT_BYTES))
        limit_files(stack.process.pid, LIMIT_BYTES)
        for _ in range(3):
            with pytest.raises(ClientError, match=r"can't (be written|write)"):
                producer.send(Message("orders", b"refused"))
        status, why = readiness(stack)
        assert (status, "File too large" in why) == (503, True), why
        limit_files(stack.process.pid, resource.RLIM_INFINITY)
        async with asyncio.timeout(30):
            await until_in_thread(lambda: readiness(stack)[0] == 200)
        producer.send(Message("orders", b"after"))
    assert received(stack, 2) == {b"x" * LIMIT_BYTES, b"after"}
    said = [line for line in stack.log_tail().splitlines() if "can't be written" in line]
    assert len(said) == 1, said
    assert "can be written again" in stack.log_tail()


def test_a_start_on_a_disk_that_turned_read_only_says_that(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    with small_disk(stack.data_dir, 200 << 20):
        with stack:
            pass
        subprocess.run(["mount", "-o", "remount,ro", str(stack.data_dir)], check=True)
        started = command("up", "--data-dir", str(stack.data_dir), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    assert (started.returncode, started.stdout) == (1, "")
    assert "is mounted read-only" in started.stderr
    assert "Traceback" not in started.stderr
