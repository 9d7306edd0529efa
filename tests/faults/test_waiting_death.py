"""The broker dies between every two operations on its disk, while messages wait for their time or their transaction.

What was acknowledged holds after the restart: a timed message comes exactly once, one that was recalled never; a
transaction that was ended stays ended, another can still be ended; and no message appears twice in its queue.
"""

import asyncio
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from ternmq_common.clock import MovableClock
from ternmq_common.errors import MessagingError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.shard.model import TransactionResolution, TransactionState
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.local import LocalMessageService
from tests.faults.dying_broker import HOUR_MS, QUEUE, TOPIC, message, opened

pytestmark = [pytest.mark.slow]
SIGKILLED = -9
AT_ONCE = 4


@dataclass(frozen=True)
class Told:
    """What the dead broker had said, step by step."""

    lines: list[str]

    def has(self, line: str) -> bool:
        return line in self.lines

    @property
    def begun(self) -> dict[str, TransactionId]:
        words = [line.split() for line in self.lines]
        return {word[1]: TransactionId.parse_id(word[2]) for word in words if word[0] == "begun"}

    @property
    def scheduled(self) -> list[str]:
        return [line.split()[1] for line in self.lines if line.startswith("scheduled ")]


def run_until_death(folder: Path, number: int) -> tuple[int, Told]:
    command = [sys.executable, "-m", "tests.faults.dying_broker", str(folder), str(number)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=False)
    return ended.returncode, Told(ended.stdout.decode().splitlines())


async def bodies(service: LocalMessageService) -> Counter[str]:
    """How often each message is in the queue; waits for what is there but not durable yet."""
    found: Counter[str] = Counter()
    bounds = await service.reading.bounds(QUEUE)
    start = bounds.minimum
    while start < bounds.maximum:
        pulled = await service.reading.pull(QUEUE, start, ALL, batch=100, poll_s=20)
        start = pulled.next_offset
        found.update(definition_pb2.Message.FromString(each.rest).body.decode() for each in pulled.messages)
    return found


async def check(folder: Path, told: Told) -> None:
    clock = MovableClock()
    service = await opened(folder, clock)
    try:
        await check_transactions(service, told)
        await check_timers(service, clock, told)
    finally:
        await service.close()


async def check_transactions(service: LocalMessageService, told: Told) -> None:
    before = await bodies(service)
    for name, transaction in told.begun.items():
        state = (await service.inspecting.transaction(transaction))[0].state
        assert before[name] == (state is TransactionState.COMMITTED), (name, state)
        for resolution, ended in (
            (TransactionResolution.COMMIT, TransactionState.COMMITTED),
            (TransactionResolution.ROLLBACK, TransactionState.ROLLED_BACK),
        ):
            if told.has(f"ended {name} {resolution.value}"):
                assert state is ended, name
            if not told.has(f"ending {name} {resolution.value}"):
                assert state is not ended, name
        wanted = (
            TransactionResolution.ROLLBACK if state is TransactionState.ROLLED_BACK else TransactionResolution.COMMIT
        )
        await service.sending.end_transaction(TOPIC, transaction, wanted)
        other = (
            TransactionResolution.COMMIT if wanted is TransactionResolution.ROLLBACK else TransactionResolution.ROLLBACK
        )
        with pytest.raises(MessagingError):
            await service.sending.end_transaction(TOPIC, transaction, other)
        assert (await bodies(service))[name] == (wanted is TransactionResolution.COMMIT), name


async def check_timers(service: LocalMessageService, clock: MovableClock, told: Told) -> None:
    clock.advance_by(4 * HOUR_MS)
    await service.sending.append(QUEUE, [message("after all")])
    for name in told.scheduled:
        if not told.has(f"recalling {name}"):
            await until_there(service, name)
    found = await bodies(service)
    for name in told.scheduled:
        assert found[name] <= 1, f"{name} is there {found[name]} times"
        assert not (told.has(f"recalled {name}") and found[name]), f"{name} was recalled"
    assert max(found.values()) == 1


async def until_there(service: LocalMessageService, name: str) -> None:
    async with asyncio.timeout(60):
        while not (found := await bodies(service))[name]:
            await service.reading.pull(QUEUE, (await service.reading.bounds(QUEUE)).maximum, ALL, batch=1, poll_s=0.2)
    assert found[name] == 1


def test_nothing_that_waits_is_lost_or_doubled_wherever_the_broker_dies(tmp_path: Path) -> None:
    """All points, a few processes at a time; the last one comes to the end of the scenario alive."""
    said: set[str] = set()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for first in count(1, AT_ONCE):
            numbers = range(first, first + AT_ONCE)
            outcomes = list(pool.map(lambda number: run_until_death(tmp_path / str(number), number), numbers))
            for number, (code, told) in zip(numbers, outcomes, strict=True):
                assert code in (0, SIGKILLED), f"operation {number}: exit code {code}"
                said.update(line.split()[0] for line in told.lines)
                if told.lines:
                    asyncio.run(check(tmp_path / str(number), told))
            if all(code == 0 for code, _ in outcomes):
                break
    assert said == {"opened", "begun", "scheduled", "ending", "ended", "recalling", "recalled"}
    assert first > 50, "there are many points at which to die"
