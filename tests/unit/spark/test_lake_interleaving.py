"""Processes with one checkpoint, and compactions, that take turns at a lake: they sleep, die and wake in any order.

A lock alone can't help against one that slept for longer than its lock lasts, so what is held here is more: whatever
they do, no row is lost and none comes twice. First two processes at each pair of moments, then many at random.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyspark_ternmq.pipelines.lake.commits import BatchCommits, LakeBroken
from pyspark_ternmq.pipelines.lake.compaction import LOCK, LakeCompaction
from pyspark_ternmq.pipelines.lake.lock import (
    CHECKPOINT_LOCK,
    COMPACTION_LOCK,
    FolderLock,
    Locked,
    LockLost,
    LockOwner,
    LockPurpose,
)
from tests.unit.spark.lake_folder import CHECKPOINT, COMPACTION, NOW, QUERY, ROOT, Killed, Lake, MemoryFiles
from tests.unit.spark.test_lake_commits import leftovers
from tests.unit.spark.turns import Process

BATCHES = 6
ALIVE_MAX = 4
# More than any process takes.
TO_THE_END = 10_000
STEPS = st.sampled_from([1, 2, 3, 5, 8, 13, 21, 34, 60, TO_THE_END])


class World:
    """A lake with its checkpoint and the processes that were started. `next_batch`: batches before it have ended."""

    def __init__(self, batches: int = BATCHES) -> None:
        self.files = MemoryFiles()
        self.batches, self.next_batch = batches, 0
        self.processes: list[Process] = []
        self.failed_owners: list[str] = []

    def start(self, work: str) -> Process:
        process = Process(self.files, self._write if work == "write" else self._compact)
        self.processes.append(process)
        return process

    def sleep(self) -> None:
        """For so long that every lock can be taken over."""
        self.files.now_ms += COMPACTION_LOCK.stale_after_ms + 1

    def check(self) -> None:
        """What holds at any moment."""
        rows, expected = self.reader.rows(), self.reader.expected
        assert set(rows) <= set(expected(self.batches))
        # A compaction tells when rows may be there twice.
        is_told = any(path.startswith(f"{ROOT}/_commits/compact-") for path in self.files.content)
        assert is_told or max(rows.values(), default=1) == 1
        # What is committed may still have to be moved.
        staged = {line for path, text in self.files.content.items() if "/_staging/" in path for line in text.split()}
        assert set(expected(self.next_batch)) <= set(rows) | staged
        # Who slept is told that he lost the lock, or that what he was at has gone. Nobody else fails.
        assert self.failed_owners == []
        told = (Killed, Locked, LockLost, OSError, LakeBroken, type(None))
        assert [process.error for process in self.processes if not isinstance(process.error, told)] == []

    def end(self) -> None:
        """Whatever was done, one more run completes the lake."""
        for process in self.processes:
            process.kill()
        self.check()
        self.sleep()
        last = self.reader
        last.processes, last.next_batch = 1000, self.next_batch
        last.write(self.batches)
        assert last.rows() >= last.expected(self.batches)
        last.compact()
        assert last.rows() == last.expected(self.batches)
        assert leftovers(self.files) == []

    @property
    def reader(self) -> Lake:
        return Lake(self.files)

    def _write(self, process: Process) -> None:
        lake, batch = Lake(process.files), self.next_batch
        with self._locked(process, f"{CHECKPOINT}/{QUERY}", CHECKPOINT_LOCK) as lock:
            commits = BatchCommits(process.files, ROOT, QUERY, lock)
            commits.finish_commits()
            while batch < self.batches:
                if not commits.is_committed(batch):
                    commits.commit(batch, lake.writer(batch))
                batch += 1
                self.next_batch = max(batch, self.next_batch)
                lock.renew_if_due()

    def _compact(self, process: Process) -> None:
        with self._locked(process, f"{ROOT}/{LOCK}", COMPACTION_LOCK) as lock:
            compaction = LakeCompaction(process.files, ROOT, lock)
            compaction.finish_swaps()
            compaction.run(COMPACTION, Lake(process.files).merge, now=NOW)

    @contextmanager
    def _locked(self, process: Process, folder: str, purpose: LockPurpose) -> Iterator[FolderLock]:
        number = self.processes.index(process) + 1
        owner = LockOwner(host="here", pid=number, started="", token=str(number))

        def lives(other: LockOwner) -> bool:
            return self.processes[other.pid - 1].is_alive

        def lock_at(files: MemoryFiles) -> FolderLock:
            return FolderLock(files, folder, owner, purpose, is_running=lives, now_ms=lambda: self.files.now_ms)

        with lock_at(process.files) as lock:
            try:
                yield lock
            except (OSError, LakeBroken) as error:
                # The same lock, looked at without a step.
                seen = lock_at(self.files)
                seen._turn = lock._turn
                if seen._is_mine():
                    self.failed_owners.append(repr(error))
                raise


def steps_of(work: str, before: int) -> int:
    """How many a whole run takes, in a lake of so many batches."""
    world = World(before)
    world.reader.write(before)
    world.batches, world.next_batch = before + 1, before
    process, steps = world.start(work), 0
    while process.is_alive:
        process.run(1)
        steps += 1
    world.end()
    return steps


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("work", ["write", "compact"])
def test_one_sleeps_another_takes_over_and_sleeps_and_the_first_one_wakes(work: str) -> None:
    before = 3
    steps = steps_of(work, before)
    for first, second in itertools.product(range(steps), range(steps)):
        world = World(before)
        world.reader.write(before)
        world.batches, world.next_batch = before + 1, before
        sleeper = world.start(work)
        sleeper.run(first)
        world.sleep()
        other = world.start(work)
        other.run(second)
        sleeper.run(TO_THE_END)
        world.check()
        other.run(TO_THE_END)
        world.end()


class ManyProcesses(RuleBasedStateMachine):
    """Up to four at a time, any of which may be killed."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @initialize()
    def begin(self) -> None:
        self.world.start("write")

    @precondition(lambda self: len(self.alive) < ALIVE_MAX)
    @rule(work=st.sampled_from(["write", "write", "compact"]))
    def start(self, work: str) -> None:
        self.world.start(work)

    @precondition(lambda self: self.alive)
    @rule(steps=STEPS, data=st.data())
    def run(self, steps: int, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.alive), label="process").run(steps)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.alive), label="process").kill()

    @rule()
    def all_sleep(self) -> None:
        self.world.sleep()

    @invariant()
    def the_lake_is_right(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        self.world.end()

    @property
    def alive(self) -> list[Process]:
        return [process for process in self.world.processes if process.is_alive]


TestManyProcesses = ManyProcesses.TestCase
TestManyProcesses.settings = settings(deadline=None, max_examples=100, stateful_step_count=40)
