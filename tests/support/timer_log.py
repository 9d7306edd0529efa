"""A commit log of timers as its records tell it, what is pending by it, and a folder that is stricter than memory."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_broker.store.timers.timer_index import TimerIndex
from ternmq_broker.store.timers.timer_run import TimerEntry
from tests.support.memory_disk import MemoryFile, MemoryFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class StrictFile(MemoryFile):
    """Can't be read when it is closed."""

    closed = False

    def read(self, position: int, size: int, *, may_block: bool = True) -> bytes:
        assert not self.closed
        return super().read(position, size, may_block=may_block)

    def close(self) -> None:
        self.closed = True


class GhostFolder(MemoryFolder):
    """After a power cut a file may be back whose removal was not followed by `sync_names`."""

    def __init__(self, files: dict[str, MemoryFile] | None = None, safe_names: set[str] | None = None) -> None:
        super().__init__(files or {}, safe_names or set())
        self.ghosts: dict[str, MemoryFile] = {}

    def open(self, name: str, *, reserve_bytes: int = 0) -> MemoryFile:
        del reserve_bytes
        return StrictFile(bytes(self.files[name].content))

    def create(self, name: str, *, reserve_bytes: int = 0) -> MemoryFile:
        super().create(name, reserve_bytes=reserve_bytes)
        self.files[name] = StrictFile()
        return self.files[name]

    def remove(self, name: str) -> None:
        if name in self.safe_names:
            self.ghosts[name] = self.files[name]
        super().remove(name)

    def sync_names(self) -> None:
        super().sync_names()
        self.ghosts = {}

    def crash(self, keep: "Callable[[int], int]", noise: bytes) -> "GhostFolder":
        survivor = super().crash(keep, noise)
        for name, file in self.ghosts.items():
            if keep(1):
                survivor.files[name] = MemoryFile(bytes(file.content))
        return GhostFolder(survivor.files, set(survivor.files))

    def copy(self) -> "GhostFolder":
        return GhostFolder(
            {name: MemoryFile(bytes(file.content)) for name, file in self.files.items()}, set(self.files)
        )


@dataclass(frozen=True)
class LogRecord:
    """A record that is a timer, settles one, or both: a copy further on."""

    log_offset: int
    size: int
    timer: TimerEntry | None = None
    settles: TimerEntry | None = None

    @property
    def end(self) -> int:
        return self.log_offset + self.size


@dataclass
class TimerLog:
    """The records from `start` on; below `safe` they survive a power cut."""

    records: list[LogRecord] = field(default_factory=list)
    start: int = 0
    safe: int = 0

    @property
    def end(self) -> int:
        return self.records[-1].end if self.records else self.start

    @property
    def boundaries(self) -> list[int]:
        """Where a record may end, from `safe` on."""
        return sorted({self.safe, self.end, *(record.end for record in self.records if record.end >= self.safe)})

    def append(
        self, size: int, *, due_ms: int | None = None, id_hash: int = 0, settles: TimerEntry | None = None
    ) -> LogRecord:
        at = self.end
        timer = None if due_ms is None else TimerEntry(due_ms, at, size, id_hash)
        self.records.append(LogRecord(at, size, timer, settles))
        return self.records[-1]

    def cut(self, end: int) -> None:
        """A power cut has left the records below `end`."""
        assert end >= self.safe
        self.records = [record for record in self.records if record.end <= end]
        self.safe = self.end

    def pending(self) -> dict[int, TimerEntry]:
        """By log offset, what a broker that has read the whole log would know."""
        found: dict[int, TimerEntry] = {}
        for record in self.records:
            if record.timer and record.log_offset >= self.start:
                found[record.log_offset] = record.timer
            if record.settles:
                found.pop(record.settles.log_offset, None)
        return found


def small_index(folder: GhostFolder) -> TimerIndex:
    """One whose limits are so low that a few timers reach all of them."""
    return TimerIndex(folder, near_max=9, chunk=4, block_entries=3, fan_in=2, pause=lambda: None)


def tell(index: TimerIndex, record: LogRecord) -> None:
    """What the owner of the index does for a record that it wrote or found in the log."""
    if record.timer:
        index.add_timer(record.timer)
    if record.settles:
        index.settle_timer(record.settles.due_ms, record.settles.log_offset, record.log_offset)


def spill(index: TimerIndex, log_to: int) -> None:
    job = index.prepare_spill(log_to)
    if job is not None:
        job.write_run()
        index.finish_spill(job)


def merge(index: TimerIndex) -> bool:
    """Whether there was something to merge."""
    job = index.prepare_merge()
    if job is None:
        return False
    job.run_job()
    index.finish_merge(job)
    return True


def opened(
    index: TimerIndex,
    log: TimerLog,
    checkpoint: "Mapping[str, object] | None" = None,
    *,
    spill_after: "Iterable[int]" = (),
) -> TimerIndex:
    """Load the index and repeat the log, with a spill behind the records whose ends are given."""
    index.load_runs(checkpoint, log_start=log.start, log_end=log.end)
    spills = set(spill_after)
    for record in log.records:
        if record.log_offset >= index.covered_offset:
            tell(index, record)
            if record.end in spills:
                spill(index, record.end)
    return index


def load(index: TimerIndex, now_ms: int) -> None:
    while index.wants_load(now_ms):
        job = index.prepare_load(now_ms)
        job.run_job()
        index.finish_load(job)


def drained(index: TimerIndex, now_ms: int) -> list[TimerEntry]:
    """All timers that are due by then, as they are taken."""
    taken: list[TimerEntry] = []
    while True:
        load(index, now_ms)
        some = index.take_due(now_ms, 7)
        if not some:
            return taken
        taken += some
