"""Runs the copiers of all queues, and moves groups, until it is stopped or has caught up."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from ternmq_command.calls.remoting_calls import RemotingRefused, RemotingUnreachable
from ternmq_command.migration.translation import is_wanted
from ternmq_command.mirror.copier import QueueCopier, Shared
from ternmq_command.mirror.group_moves import GroupMoves
from ternmq_command.mirror.positions import Queue, TopicPositions, choose_target
from ternmq_command.mirror.scanning import scan_topic
from ternmq_command.mirror.source import group_of_retries
from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_common.names import RETRY_PREFIX, retry_topic

if TYPE_CHECKING:
    from ternmq_command.mirror.checkpoint import CheckpointFolder
    from ternmq_command.mirror.target import TargetPlace

REFRESH_S, CHECKPOINT_S, END_S = 10.0, 5.0, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The task of a mirror: patterns of topics and groups to copy, all without a pattern of the kind. `target` is the
    address of the target; `sync_groups`: groups are moved, too, every `sync_s` seconds."""

    topics: Sequence[str]
    groups: Sequence[str]
    target: str
    sync_groups: bool = True
    sync_s: float = 2.0
    unconsumed_only: bool = False
    until_caught_up: bool = False


class Mirroring:
    """`await Mirroring(shared, wish, folder).run()`; `show` is called now and then."""

    def __init__(
        self, shared: Shared, wish: Wish, folder: "CheckpointFolder | None", show: Callable[["Mirroring"], None]
    ) -> None:
        self.shared = shared
        self._wish = wish
        self._folder = folder
        self._show = show
        self._moves = GroupMoves(shared)
        self._found: dict[str, TopicPositions] = {}
        self._copiers: dict[Queue, QueueCopier] = {}
        self._tasks: dict[Queue, asyncio.Task[None]] = {}
        self._without_topic: set[str] = set()
        self._places: dict[str, list[TargetPlace]] = {}
        self._caught_up: float | None = None
        self.topics: dict[str, TopicPositions] = {}

    @property
    def lags(self) -> dict[str, int]:
        """How many messages of each topic of the target are not copied yet."""
        lags: dict[str, int] = {}
        for copier in self._copiers.values():
            lags[copier.queue.topic] = lags.get(copier.queue.topic, 0) + copier.lag
        return lags

    @property
    def doubles(self) -> int:
        """How many messages were found in the target twice; its own retries are copies too, and not counted."""
        return sum(topic.doubles for name, topic in self.topics.items() if not name.startswith(RETRY_PREFIX))

    async def run(self) -> None:
        """Copy until `shared.stopping` is set, or it has caught up. CommandFailure if there is nothing to copy, or
        something that only a person can mend."""
        ways = self.shared.ways
        if self._folder is not None:
            self._found = self._folder.read(ways.source, self._wish.target)
        await self._begin_copiers()
        if not self._copiers:
            raise WrongUsage(
                "no topic of the source is wanted and at the target, too: ternmq import rocketmq makes them"
            )
        try:
            await self._run_rounds()
        finally:
            await self._end_copiers()
            if self._wish.sync_groups:
                await self._attempt(self._move_groups)
            self._write_checkpoint()

    async def _run_rounds(self) -> None:
        """Do what is due, until the end."""
        now = time.monotonic()
        refreshed = written = now
        synced = 0.0
        while not self.shared.stopping.is_set():
            self._raise_failures()
            self._show(self)
            now = time.monotonic()
            if now - synced >= self._wish.sync_s:
                await self._attempt(self._move_groups)
                synced = time.monotonic()
            if now - refreshed >= REFRESH_S:
                await self._attempt(self._begin_copiers)
                refreshed = time.monotonic()
            if now - written >= CHECKPOINT_S:
                self._write_checkpoint()
                written = time.monotonic()
            if self._wish.until_caught_up and self._is_caught_up(now):
                return
            try:
                async with asyncio.timeout(0.2):
                    await self.shared.stopping.wait()
            except TimeoutError:
                continue

    def _is_caught_up(self, now: float) -> bool:
        """Return whether all that was at the source is copied, since long enough that retries were looked at, too."""
        if not self._moves.has_watched or not all(copier.is_caught_up for copier in self._copiers.values()):
            self._caught_up = None
            return False
        self._caught_up = now if self._caught_up is None else self._caught_up
        return now - self._caught_up > 2 * self.shared.pauses.look

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do what may fail while a server is away; it is done again later."""
        try:
            await work()
        except (RemotingUnreachable, RemotingRefused) as failure:
            self.shared.note(failure.what)

    async def _move_groups(self) -> None:
        began = datetime.now(UTC)
        await self._moves.move_groups(self._wanted_groups() if self._wish.sync_groups else [], self.topics)
        if self._folder is not None:
            status = {
                "time": began.isoformat(timespec="milliseconds"),
                "copied": self.shared.counts.copied,
                "lag": self.lags,
                "groups": self._moves.behind,
            }
            with _converting_errors("status"):
                self._folder.write_status(status)

    def _wanted_groups(self) -> list[str]:
        return [group for group in self.shared.source.groups if is_wanted(group, self._wish.groups)]

    # --- copiers

    async def _begin_copiers(self) -> None:
        """Read again what there is on both sides, and begin to copy what is new."""
        source, target = self.shared.source, self.shared.target
        await source.refresh()
        await target.refresh()
        if self._wish.unconsumed_only and not self._moves.committed:
            self._moves.committed = await source.read_committed()
        for queue in source.queues:
            if queue not in self._copiers and (topic := self._find_topic(queue)) is not None:
                await self._begin_copier(queue, topic)

    def _find_topic(self, queue: Queue) -> str | None:
        """Return the topic of the target for a queue, None if the queue is not copied."""
        if queue.topic.startswith(RETRY_PREFIX):
            group = group_of_retries(queue.topic, self._wanted_groups()) if self._wish.sync_groups else None
            is_there = group is not None and group in self.shared.target.groups
            return retry_topic(group) if group is not None and is_there else None
        if not is_wanted(queue.topic, self._wish.topics):
            return None
        has_topic = self.shared.target.has_topic(queue.topic)
        if has_topic and self.shared.target.kinds.get(queue.topic) != "TRANSACTION":
            return queue.topic
        if queue.topic not in self._without_topic:
            self._without_topic.add(queue.topic)
            reason = "takes only messages of transactions" if has_topic else "is not at the target"
            hint = " --mixed" if has_topic else ""
            self.shared.note(f"topic {queue.topic} {reason}, and is not copied: ternmq import rocketmq{hint} makes it")
        return None

    async def _begin_copier(self, queue: Queue, topic: str) -> None:
        shared = self.shared
        if topic not in self.topics:
            self._places[topic] = await shared.target.find_queues(topic)
            queues = [place.queue for place in self._places[topic]]
            self.topics[topic] = await scan_topic(shared.target, queues, shared.ways.source, self._found.get(topic))
            self._found.pop(topic, None)
        positions = self.topics[topic]
        at = positions.sources.get(queue)
        if at is not None:
            place = at.target
        elif writable := [place.queue for place in self._places[topic] if place.is_writable]:
            place = choose_target(queue, shared.source.brokers, writable)
        else:
            shared.note(f"topic {topic} takes no messages at the target now")
            return
        group = group_of_retries(queue.topic, self._wanted_groups())
        begin = None
        if group is not None or (self._wish.unconsumed_only and at is None):
            begin = partial(self._find_consumed, queue, group)
        copier = QueueCopier(shared, queue, place, positions, retries_of=group, begin=begin)
        self._copiers[queue] = copier
        self._tasks[queue] = asyncio.create_task(copier.run())

    async def _find_consumed(self, queue: Queue, group: str | None) -> int:
        """Return up to where the queue was consumed: by that group, or else by all that consume it."""
        committed = self._moves.committed
        if group is not None:
            return committed.get(group, {}).get(queue, 0)
        return min((its[queue] for its in committed.values() if queue in its), default=0)

    def _raise_failures(self) -> None:
        for task in self._tasks.values():
            if task.done() and (error := task.exception()) is not None:
                raise error

    async def _end_copiers(self) -> None:
        """Let sends end that have begun."""
        self.shared.stopping.set()
        for queue, copier in self._copiers.items():
            if copier.is_idle:
                self._tasks[queue].cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=END_S)
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _write_checkpoint(self) -> None:
        if self._folder is None:
            return
        with _converting_errors("positions"):
            self._folder.write(self.shared.ways.source, self._wish.target, {**self._found, **self.topics})


@contextlib.contextmanager
def _converting_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CommandFailure(f"can't write the {what}: {error.strerror}") from None
