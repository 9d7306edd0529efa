"""The broker dies between every two operations on its disk while queues are purged.

Each queue is purged or it is not, what was answered is, and no offset is given twice.
"""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from ternmq_common.clock import MovableClock
from ternmq_common.shard.model import QueueBounds
from tests.faults.dying_broker import PURGED_BELOW, PURGED_MESSAGES, PURGED_QUEUES, message, opened

pytestmark = [pytest.mark.slow]
SIGKILLED = -9
AT_ONCE = 2


def run_until_death(folder: Path, number: int) -> tuple[int, list[str]]:
    command = [sys.executable, "-m", "tests.faults.dying_broker", str(folder), str(number), "purge"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=False)
    return ended.returncode, ended.stdout.decode().splitlines()


async def check(folder: Path, told: list[str]) -> None:
    service = await opened(folder, MovableClock())
    try:
        for queue in PURGED_QUEUES:
            bounds = await service.reading.bounds(queue)
            if f"purged {queue.queue_id}" in told:
                assert bounds.minimum == PURGED_BELOW
            elif f"purging {queue.queue_id}" not in told:
                assert bounds.minimum == 0
            assert bounds.minimum in (0, PURGED_BELOW)
            if "sent" in told:
                is_known = f"appended {queue.queue_id}" in told
                ends = {PURGED_MESSAGES + 1} if is_known else {PURGED_MESSAGES, PURGED_MESSAGES + 1}
                assert bounds.maximum in ends
            (appended,) = await service.sending.append(queue, [message("again")])
            assert appended.queue_offset == bounds.maximum
            assert await service.reading.bounds(queue) == QueueBounds(bounds.minimum, bounds.maximum + 1)
    finally:
        await service.close()


def die_and_check(folder: Path, number: int) -> tuple[int, list[str]]:
    code, told = run_until_death(folder, number)
    asyncio.run(check(folder, told))
    return code, told


def test_each_queue_is_purged_or_not_wherever_the_broker_dies(tmp_path: Path) -> None:
    deaths = 0
    halfway = False
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for first in count(1, AT_ONCE):
            numbers = range(first, first + AT_ONCE)
            outcomes = list(pool.map(lambda number: die_and_check(tmp_path / str(number), number), numbers))
            deaths += sum(code == SIGKILLED for code, _ in outcomes)
            halfway |= any("purged 0" in told and "purged 2" not in told for _, told in outcomes)
            if any(code == 0 for code, _ in outcomes):
                break
    assert all(code in (0, SIGKILLED) for code, _ in outcomes)
    assert deaths > len(PURGED_QUEUES)
    assert halfway
