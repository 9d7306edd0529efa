"""Copies one queue of the source into one queue of the target, in order.

One send at a time goes to a queue of the target. After a send without an answer the queue is read before anything else
is sent: what is there is not sent again.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_command.calls.remoting_calls import RemotingRefused, RemotingUnreachable
from ternmq_command.mirror.copies import Copy, LoopUnclear, Ways, copy_message, split_batches, without_controls
from ternmq_command.mirror.positions import Queue, TopicPositions
from ternmq_command.mirror.scanning import scan_queue
from ternmq_command.mirror.source import find_retried_topic
from ternmq_command.terminal.failures import CommandFailure, WrongUsage

if TYPE_CHECKING:
    from ternmq_command.mirror.pulling import Pulled
    from ternmq_command.mirror.source import Source
    from ternmq_command.mirror.target import Target

SLOTS = 64
"""So many queues hold messages at a time: each at most the answer to one pull."""
_POLL_S = 15.0
_ILLEGAL, _NO_PERMISSION, _NO_TOPIC = 13, 16, 17
# The message may be stored: a flush or a replica took too long, or the answer has an unknown code.
_UNKNOWN = frozenset({1, 10, 11, 12})
_MEANT = frozenset({_NO_PERMISSION, 29})


class MessageRefused(CommandFailure):
    """The target does not take a message."""

    word = "MESSAGE_REFUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long copiers wait, in seconds: `backoff` after a failure, doubled up to `backoff_max`; `unknown` before they
    look for messages whose send had no answer; `look` before they check again for changes that no call reports;
    `believed` until a queue that ends before its copies counts as truncated."""

    backoff: float = 0.2
    backoff_max: float = 15.0
    unknown: float = 1.0
    look: float = 1.0
    believed: float = 30.0


@dataclass(slots=True)
class Counts:
    """Counts of messages by outcome. `lost` were removed at the source before they were copied; `looped` are of the
    target itself; `changed` lost control characters; `refused` were left out on demand."""

    copied: int = 0
    looped: int = 0
    lost: int = 0
    changed: int = 0
    refused: int = 0
    moved_groups: int = 0


@dataclass(slots=True)
class Shared:
    """The state that all copiers share. `left_groups` have no members at the source any more."""

    source: "Source"
    target: "Target"
    ways: Ways
    note: Callable[[str], None]
    skips_refused: bool = False
    pauses: Pauses = field(default_factory=Pauses)
    counts: Counts = field(default_factory=Counts)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SLOTS))
    locks: defaultdict[Queue, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    left_groups: set[str] = field(default_factory=set)
    rate: float = 0.0
    _free_s: float = 0.0

    async def pace(self, count: int) -> None:
        """Wait until so many more messages fit into `rate`, which is per second; 0 is no limit."""
        if not self.rate:
            return
        now = time.monotonic()
        begin = max(now, self._free_s)
        self._free_s = begin + count / self.rate
        if begin > now:
            await asyncio.sleep(begin - now)


class QueueCopier:
    """Copies from `queue` to `target_queue`. `retries_of` is the group whose retries these are: they are copied while
    it has no members at the source, as its members there get them otherwise."""

    def __init__(
        self,
        shared: Shared,
        queue: Queue,
        target_queue: Queue,
        positions: TopicPositions,
        *,
        retries_of: str | None = None,
        begin: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self.queue = queue
        self.is_caught_up = False
        self.is_idle = False
        self.lag = 0
        self._shared = shared
        self._target_queue = target_queue
        self._positions = positions
        self._retries_of = retries_of
        self._begin = begin
        self._retried_topic = "" if retries_of is None else find_retried_topic(queue.topic, retries_of)
        self._has_left = retries_of is None
        self._has_begun = queue in positions.sources
        self._ends_before_since: float | None = None
        self._pause_s = shared.pauses.backoff
        self._delays = shared.target.kinds.get(target_queue.topic) == "DELAY"

    @property
    def next_offset(self) -> int:
        """The next offset to copy."""
        at = self._positions.sources.get(self.queue)
        return 0 if at is None else at.next_offset

    async def run(self) -> None:
        """Copy until the mirror stops. Raises CommandFailure where an operator has to act."""
        while not self._shared.stopping.is_set():
            try:
                if self._retries_of is not None and self._retries_of not in self._shared.left_groups:
                    self.is_caught_up, self._has_left, self.lag = True, False, 0
                    await self._wait(self._shared.pauses.look)
                    continue
                self.is_caught_up, self._has_left = self.is_caught_up and self._has_left, True
                await self._copy_some()
                self._pause_s = self._shared.pauses.backoff
            except RemotingUnreachable as error:
                await self._back_off(error.what)
            except RemotingRefused as refusal:
                if refusal.code in _MEANT:
                    raise
                await self._back_off(refusal.what)

    async def _copy_some(self) -> None:
        """Copy what one pull finds; at the end of the queue wait for a message."""
        async with self._shared.slots:
            if self._begin is not None:
                await self._find_begin(self._begin)
            pulled = await self._shared.source.pull(self.queue, self.next_offset)
            await self._take(pulled)
        if pulled.is_moved or pulled.next_offset > self.next_offset or pulled.records:
            return
        self.is_caught_up = self.next_offset >= pulled.maximum
        if self._retries_of is not None:
            await self._wait(self._shared.pauses.look)
            return
        self.is_idle = True
        try:
            # One message at most is held while the slots are others'.
            pulled = await self._shared.source.pull(self.queue, self.next_offset, wait_s=_POLL_S, most=1)
        finally:
            self.is_idle = False
        await self._take(pulled)

    async def _find_begin(self, begin: Callable[[], Awaitable[int]]) -> None:
        offset = await begin()
        self._positions.note_passed(self.queue, offset, 0, self._target_queue)
        if self._retries_of is None:
            self._begin = None  # that of retries moves while the group is at the source

    async def _take(self, pulled: "Pulled") -> None:
        if pulled.is_moved:
            await self._follow_move(pulled)
            return
        copies: list[Copy] = []
        for record in pulled.records:
            try:
                copy = copy_message(
                    record,
                    self.queue.broker,
                    self._shared.ways,
                    delays=self._delays,
                    retried_topic=self._retried_topic,
                )
            except LoopUnclear as cluster:
                raise WrongUsage(
                    f"messages of {self.queue.topic} came from cluster {cluster} by a mirror: --target-name has to say "
                    "what that mirror calls this target, so that its messages do not come back to it"
                ) from None
            if copy is None:
                self._shared.counts.looped += 1
            else:
                copies.append(copy)
        self._has_begun, self._ends_before_since = True, None
        for batch in split_batches(copies, alone=self._delays):
            await self._shared.pace(len(batch))
            await self._store(batch)
        stored_ms = pulled.records[-1].stored_ms if pulled.records else 0
        self._positions.note_passed(self.queue, pulled.next_offset, stored_ms, self._target_queue)
        self.lag = max(0, pulled.maximum - self.next_offset)
        self.is_caught_up = self.is_caught_up or self.lag == 0

    async def _follow_move(self, pulled: "Pulled") -> None:
        """Go on where the source still has messages."""
        at = self.next_offset
        if at < pulled.minimum:
            if self._has_begun:
                self._shared.counts.lost += (lost := pulled.minimum - at)
                text = f"{lost:,} messages of {self._name()} were removed at the source before they were copied"
                self._shared.note(text)
            self._positions.note_passed(self.queue, pulled.minimum, 0, self._target_queue)
        elif at > pulled.maximum:
            await self._follow_return(pulled)
        else:
            await self._back_off(f"{self._name()} refuses offset {at}, which it has")

    async def _follow_return(self, pulled: "Pulled") -> None:
        """The queue ends before what was copied: the topic was created again, or a new master lacks the last messages.
        That is believed if it stays so for a while: a broker that has just started may not have read all of its log."""
        now = time.monotonic()
        if self._ends_before_since is None:
            self._ends_before_since = now
        if pulled.minimum >= pulled.maximum or now - self._ends_before_since < self._shared.pauses.believed:
            self.is_caught_up, self.lag = pulled.minimum >= pulled.maximum, 0
            await self._wait(self._shared.pauses.look)
            return
        first = await self._shared.source.pull(self.queue, pulled.minimum, most=1)
        if not first.records:
            await self._back_off(f"{self._name()} has no message at {pulled.minimum}")
            return
        is_new = first.records[0].stored_ms > self._positions.sources[self.queue].stored_ms
        begin = pulled.minimum if is_new else pulled.maximum
        self._shared.note(
            f"{self._name()} ends at {pulled.maximum}, before offset {self.next_offset}: "
            f"{'it was created again' if is_new else 'its broker has lost messages'}; going on at {begin}"
        )
        self._positions.begin_again(self.queue, begin)

    # --- sends

    async def _store(self, batch: list[Copy]) -> None:
        async with self._shared.locks[self._target_queue]:
            while batch:
                try:
                    begin = await self._shared.target.send(self._target_queue, batch)
                except RemotingUnreachable as error:
                    batch = await self._find_missing(batch, error.what)
                except RemotingRefused as refusal:
                    if refusal.code in _UNKNOWN:
                        batch = await self._find_missing(batch, refusal.what)
                    elif refusal.code == _ILLEGAL:
                        await self._store_singly(batch)
                        return
                    elif refusal.code in _MEANT:
                        raise
                    else:
                        await self._back_off(refusal.what)
                else:
                    self._note_copied(begin, batch)
                    return

    def _note_copied(self, begin: int, batch: list[Copy]) -> None:
        times = [copy.stored_ms for copy in batch]
        self._positions.note_copied(self._target_queue, begin, self.queue, batch[0].queue_offset, times)
        self._shared.counts.copied += len(batch)

    async def _find_missing(self, batch: list[Copy], reason: str) -> list[Copy]:
        """Return the messages that are not in the target, once it can be read."""
        await self._wait(self._shared.pauses.unknown)  # what it has received by then, it has stored
        while True:
            try:
                await scan_queue(self._shared.target, self._target_queue, self._shared.ways.source, self._positions)
                break
            except (RemotingUnreachable, RemotingRefused) as error:
                await self._back_off(reason)
                reason = error.what
        missing = [copy for copy in batch if copy.queue_offset >= self.next_offset]
        self._shared.counts.copied += len(batch) - len(missing)
        return missing

    async def _store_singly(self, batch: list[Copy]) -> None:
        """Store messages one by one, as the target refused one of them."""
        for copy in batch:
            for attempt in (copy, without_controls(copy)):
                try:
                    begin = await self._shared.target.send(self._target_queue, [attempt])
                except RemotingRefused as refusal:
                    if refusal.code != _ILLEGAL:
                        raise
                    reason = refusal.what
                else:
                    self._note_copied(begin, [attempt])
                    self._shared.counts.changed += attempt is not copy
                    break
            else:
                if not self._shared.skips_refused:
                    raise MessageRefused(
                        f"message {copy.queue_offset} of {self._name()} is refused: {reason}",
                        hint="--skip-refused leaves such messages out, and counts them",
                    )
                self._shared.counts.refused += 1
                self._positions.note_passed(self.queue, copy.queue_offset + 1, copy.stored_ms, self._target_queue)

    # --- waiting

    async def _back_off(self, reason: str) -> None:
        pauses = self._shared.pauses
        if self._pause_s > pauses.backoff:
            self._shared.note(reason)
        await self._wait(self._pause_s)
        self._pause_s = min(self._pause_s * 2, pauses.backoff_max)

    async def _wait(self, wait_s: float) -> None:
        self.is_idle = True
        try:
            await asyncio.sleep(wait_s)
        finally:
            self.is_idle = False

    def _name(self) -> str:
        return f"queue {self.queue.queue_id} of {self.queue.topic} on {self.queue.broker}"
