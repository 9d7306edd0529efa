"""A source and a target in memory, with the ways of both in which they fail."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from ternmq_command.calls.remoting_calls import RemotingAccess, RemotingRefused, RemotingUnreachable
from ternmq_command.mirror.copier import Pauses, Shared
from ternmq_command.mirror.copies import Copy, Ways
from ternmq_command.mirror.positions import Queue
from ternmq_command.mirror.pulling import Pulled
from ternmq_command.mirror.source import Source
from ternmq_command.mirror.target import Target, TargetPlace
from ternmq_rpc.remoting.message_records import MessageRecord

MISSING_GROUP = 26


class MemoryQueue:
    """Messages from offset `first` on."""

    def __init__(self) -> None:
        self.first = 0
        self.records: list[MessageRecord] = []

    @property
    def end(self) -> int:
        return self.first + len(self.records)

    def append(self, queue: Queue, body: bytes, properties: str, stored_ms: int) -> int:
        record = MessageRecord(queue.topic, body, properties, queue.queue_id, self.end, 0, stored_ms=stored_ms)
        self.records.append(record)
        return record.queue_offset

    def remove(self, count: int) -> None:
        """As retention does."""
        del self.records[:count]
        self.first += count

    def pull(self, offset: int, most: int) -> Pulled:
        if not self.first <= offset <= self.end:
            moved = self.first if offset < self.first else self.end
            return Pulled([], moved, self.first, self.end, is_moved=True)
        found = self.records[offset - self.first :][:most]
        return Pulled(found, offset + len(found), self.first, self.end, is_moved=False)


class MemorySource(Source):
    """A source; `failures` are raised by its next pulls, one each. `members` are groups that have members."""

    def __init__(self, queues: Sequence[Queue]) -> None:
        super().__init__(["memory:1"], RemotingAccess())
        self.cluster = "east"
        self.queues = list(queues)
        self.contents = {queue: MemoryQueue() for queue in queues}
        self.failures: deque[Exception] = deque()
        self.offsets: dict[str, dict[Queue, int]] = {}
        self.members: set[str] = set()
        self.clock_ms = 0
        self.on_pull: Callable[[], object] = lambda: None

    @property
    def brokers(self) -> list[str]:
        return sorted({queue.broker for queue in self.contents})

    def send(self, queue: Queue, *bodies: str) -> None:
        for body in bodies:
            self.clock_ms += 1
            self.contents[queue].append(queue, body.encode(), f"UNIQ_KEY\x01{body}", self.clock_ms)

    async def refresh(self) -> None:
        self.queues = list(self.contents)

    async def pull(self, queue: Queue, offset: int, *, wait_s: float = 0.0, most: int = 4) -> Pulled:
        await asyncio.sleep(0)
        self.on_pull()
        if self.failures:
            raise self.failures.popleft()
        return self.contents[queue].pull(offset, most)

    async def read_committed(self) -> dict[str, dict[Queue, int]]:
        return self.offsets

    async def has_members(self, group: str) -> bool:
        return group in self.members


class MemoryTarget(Target):
    """A target. Each of `failures` is raised by a send, with whether the messages are stored before. `refused` are
    bodies that it does not take."""

    def __init__(self, queues: Sequence[Queue]) -> None:
        super().__init__("memory:2", RemotingAccess())
        self.contents = {queue: MemoryQueue() for queue in queues}
        self.failures: deque[tuple[Exception, bool]] = deque()
        self.refused: set[bytes] = set()
        self.offsets: dict[tuple[str, Queue], int] = {}
        self.members: set[str] = set()
        self.commits: list[tuple[str, Queue, int]] = []

    async def refresh(self) -> None:
        pass

    def has_topic(self, topic: str) -> bool:
        return any(queue.topic == topic for queue in self.contents)

    async def find_queues(self, topic: str) -> list[TargetPlace]:
        return [TargetPlace(queue, is_writable=True) for queue in self.contents if queue.topic == topic]

    def bodies(self, queue: Queue) -> list[str]:
        return [record.body.decode() for record in self.contents[queue].records]

    async def send(self, queue: Queue, copies: Sequence[Copy]) -> int:
        failure, is_stored = self.failures.popleft() if self.failures else (None, True)
        begin = self.contents[queue].end
        if any(copy.part.body in self.refused or "\t" in copy.part.properties for copy in copies):
            raise RemotingRefused("illegal", 13)
        if is_stored:
            for copy in copies:
                self.contents[queue].append(queue, copy.part.body, copy.part.properties, 0)
        if failure is not None:
            raise failure
        return begin

    async def pull(self, queue: Queue, offset: int) -> Pulled:
        return self.contents[queue].pull(offset, 3)

    async def find_begin(self, group: str, queue: Queue) -> int:
        return self.offsets.get((group, queue), self.contents[queue].first)

    async def find_minimum(self, queue: Queue) -> int:
        return self.contents[queue].first

    async def commit(self, group: str, queue: Queue, offset: int) -> None:
        if group not in self.groups:
            raise RemotingRefused("no such group", MISSING_GROUP)
        self.commits.append((group, queue, offset))
        self.offsets[group, queue] = offset

    async def has_members(self, group: str) -> bool:
        return group in self.members


QUICK = Pauses(backoff=0.001, backoff_max=0.001, unknown=0.001, look=0.001, believed=0.001)


def connect(source: MemorySource, target: MemoryTarget, notes: list[str], pauses: Pauses = QUICK) -> Shared:
    """Return what copiers between the two have in common."""
    return Shared(source, target, Ways(source="east", target="west"), notes.append, pauses=pauses)


def unreachable() -> RemotingUnreachable:
    return RemotingUnreachable("no answer")
