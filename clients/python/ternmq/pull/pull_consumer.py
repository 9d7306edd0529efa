"""The pull consumer: reads its queues by offset, in order, and commits its progress.

Queues      the server assigns the queues of a topic to the pulling members of the group; a broadcasting consumer has
            all of them. The assignment is queried every few seconds; a queue that is no longer assigned is given up at
            once
Start       at the committed offset; if there is none, or it is outside of the queue, by `start_from`
Steps       each `poll`, and each step of an iteration, marks what the steps before handed out as handled
Commits     automatic ones go as far as messages are handled, so messages in progress are delivered again after the
            process dies; `commit_offsets` goes as far as what was handed out
Close       a last automatic commit, then termination. It takes what was handed out as handled, unless an exception
            ended the `async with`
"""

import asyncio
import logging
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias, Unpack

from ternmq.client import ClientLife
from ternmq.errors import BadRequest, NotRunning
from ternmq.messages.filters import Subscriptions
from ternmq.messages.message_view import MessageView
from ternmq.options import ClientOptions
from ternmq.pull.offsets import StartFrom, check_start, find_offset
from ternmq.pull.pull_queue import MessageQueue, PullQueue
from ternmq.pull.queue_reader import QueueReader, ReadingPolicy
from ternmq.pull.queue_rebalancer import AssignmentListener
from ternmq.times.durations import Seconds, seconds_above_0, seconds_from_0
from ternmq_common.limits import MIB
from ternmq_protos.v2 import definition_pb2 as pb

logger = logging.getLogger(__name__)

BUFFERED_MESSAGES_MAX = 1024
BUFFERED_BYTES_MAX = 64 * MIB

Queues: TypeAlias = MessageQueue | Iterable[MessageQueue]


class PullConsumer(QueueReader):
    """Reads queues by offset.

        async with PullConsumer("127.0.0.1:8081", group="billing", subscriptions={"orders": "*"}) as consumer:
            async for view in consumer:
                ...
                await consumer.commit()

    `start_from` is for queues in which the group has no offset: `"latest"`, `"earliest"`, or an aware datetime.
    `auto_commit` commits every `auto_commit_interval` seconds and at the end. `on_assignment(assigned, revoked)`, a
    plain or a coroutine function, is called on the event loop with lists of `MessageQueue`. `broadcasting` gives each
    consumer all queues; its progress is kept in `offsets_file`, not by the server. The other arguments are those of
    `ternmq.options.ClientOptions`. One task at a time polls or iterates.
    """

    def __init__(
        self,
        endpoint: str,
        group: str,
        subscriptions: Subscriptions,
        *,
        start_from: StartFrom = "latest",
        auto_commit: bool = True,
        auto_commit_interval: Seconds = 5.0,
        on_assignment: AssignmentListener | None = None,
        buffered_messages_max: int = BUFFERED_MESSAGES_MAX,
        buffered_bytes_max: int = BUFFERED_BYTES_MAX,
        broadcasting: bool = False,
        offsets_file: str | os.PathLike[str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        if buffered_messages_max < 1 or buffered_bytes_max < 1:
            raise ValueError("buffered_messages_max and buffered_bytes_max must be above 0")
        auto_commit_s = seconds_above_0("auto_commit_interval", auto_commit_interval)
        if broadcasting != (offsets_file is not None):
            raise ValueError("broadcasting needs an offsets_file, and nothing else does")
        policy = ReadingPolicy(
            start_from=check_start(start_from),
            auto_commit_s=auto_commit_s if auto_commit else None,
            buffered_messages_max=buffered_messages_max,
            buffered_bytes_max=buffered_bytes_max,
            offsets_file=None if offsets_file is None else Path(offsets_file),
        )
        super().__init__(endpoint, group, subscriptions, policy, on_assignment, **options)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._all_handled_at_close = error is None
        await super().__aexit__(kind, error, trace)

    # Messages.

    async def poll(self, max_messages: int = 32, timeout: Seconds = 5.0) -> list[MessageView]:
        """Return up to `max_messages` as soon as there is one; `[]` if none arrived within `timeout` seconds."""
        if max_messages < 1:
            raise ValueError(f"{max_messages=} must be at least 1")
        timeout_s = seconds_from_0("timeout", timeout)
        await self._mark_handled()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._take_messages(max_messages)
        except TimeoutError:
            return []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageView:
        """Return the next message; the iteration ends when the consumer is closed."""
        try:
            await self._mark_handled()
            [view] = await self._take_messages(1)
        except NotRunning:
            if self._life is ClientLife.NEW:
                raise
            raise StopAsyncIteration from None
        return view

    async def _mark_handled(self) -> None:
        """Mark what was handed out as handled: queues that were given up meanwhile have waited for this."""
        self._check_running()
        given_up = self._buffer.mark_handled()
        if given_up:
            self._tasks.start(self._commit_handled(given_up))
        await asyncio.sleep(0)  # a handler that never waits must not block pulls and heartbeats

    async def _take_messages(self, count: int) -> list[MessageView]:
        """Take messages. There is no wait after the taking, so a cancelled caller has taken nothing."""
        while True:
            await self._buffer.wait_some()
            self._check_running()
            if views := self._buffer.take_messages(count):
                return views

    # Progress.

    async def commit(self, view: MessageView | None = None) -> None:
        """Commit all that was handed out, or one queue up to `view`; an offset is set back only after a seek.

        A queue that another member has by now is left out, with a line in the log. Any other failure is raised, after
        the rest was committed.
        """
        self._check_running()
        if view is None:
            await self._committer.commit_offsets({state: state.next_offset for state in self._buffer.known_queues})
        elif (state := self._buffer.find_queue(MessageQueue.of(view))) is not None:
            await self._committer.commit_offsets({state: view.offset + 1})
        else:
            logger.warning("%s: %r is not committed: its queue was given up", self.client_id, view)
        self._buffer.forget_committed()

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return where the group would continue in a queue, assigned or not; None if it never read the queue."""
        self._check_running()
        state = self._buffer.queues.get(queue)
        candidates = (await self._routes.get_route(queue.topic)).readable if state is None else (state.queue,)
        for candidate in candidates:
            if MessageQueue.named(candidate) == queue:
                return await self._offsets.load_offset(candidate)
        raise BadRequest(pb.BAD_REQUEST, f"there is no queue {queue}")

    async def position(self, queue: MessageQueue) -> int:
        """Return the offset to be handed out next; the message may have a later one if the filter leaves that out."""
        [state] = self._select_queues(queue)
        await self._find_position(state)
        assert state.next_offset is not None
        return state.next_offset

    # Queues.

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that are assigned to this consumer now."""
        return sorted(self._buffer.queues)

    def pause(self, queues: Queues | None = None) -> None:
        """Hand out nothing of these queues, or of all, until `resume`, or until they are given up."""
        for state in self._select_queues(queues):
            self._buffer.set_paused(state, True)
            self._pulls.restart_pulling(state)

    def resume(self, queues: Queues | None = None) -> None:
        """Continue where `pause` stopped."""
        for state in self._select_queues(queues):
            self._buffer.set_paused(state, False)

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Continue at an offset; buffered messages of the queue aren't handed out any more."""
        if queue_offset < 0:
            raise ValueError(f"{queue_offset=} must not be negative")
        [state] = self._select_queues(queue)
        self._seek_queue(state, queue_offset)

    async def seek_to_beginning(self, queues: Queues | None = None) -> None:
        """Continue at the first message that the server still has, in these queues or in all."""
        await self._seek_to("earliest", queues)

    async def seek_to_end(self, queues: Queues | None = None) -> None:
        """Continue after the last message, in these queues or in all."""
        await self._seek_to("latest", queues)

    async def seek_to_time(self, time: datetime, queues: Queues | None = None) -> None:
        """Continue at the first message that was stored at or after a time, in these queues or in all."""
        await self._seek_to(check_start(time), queues)

    async def _seek_to(self, place: StartFrom, queues: Queues | None) -> None:
        states = self._select_queues(queues)
        found = await asyncio.gather(*(find_offset(self._call_endpoint, state.queue, place) for state in states))
        for state, queue_offset in zip(states, found, strict=True):
            if self._buffer.is_assigned(state):
                self._seek_queue(state, queue_offset)

    def _seek_queue(self, state: PullQueue, queue_offset: int) -> None:
        self._buffer.seek_queue(state, queue_offset)
        self._pulls.restart_pulling(state)

    def _select_queues(self, queues: Queues | None) -> list[PullQueue]:
        self._check_running()
        if queues is None:
            return list(self._buffer.queues.values())
        names = [queues] if isinstance(queues, MessageQueue) else list(queues)
        if strange := [str(name) for name in names if name not in self._buffer.queues]:
            raise BadRequest(pb.BAD_REQUEST, f"not assigned to this consumer: {', '.join(strange)}")
        return [self._buffer.queues[name] for name in names]
