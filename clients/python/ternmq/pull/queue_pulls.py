"""PullMessage: one call, and the loop that keeps one waiting at the server for every queue that has room.

Continuing  where the server says (`next_offset`), also without messages: what a filter leaves out is skipped, as is
            what retention removed, and a group with a queue lock is sent to its acknowledged offset
Position    found before the first pull of a queue; found again, by the start policy, if it is outside of the queue
Pauses      after an error, and after an empty answer that came sooner than a long poll would: nothing here spins
Seeks       cancel the waiting call, whose messages aren't wanted any more
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ternmq.connections import connection as calls
from ternmq.connections.connection import GrpcConnection
from ternmq.connections.isolated_endpoints import log_level_of
from ternmq.connections.route import RouteQueue
from ternmq.errors import ClientError, InternalError, TransportError, create_error
from ternmq.messages.message_view import MessageView
from ternmq.pull.pull_buffer import PullBuffer
from ternmq.pull.pull_queue import PullQueue
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class PulledBatch:
    """The result of one pull; `next_offset` is None if the server didn't get as far as sending it."""

    status: pb.Status = field(default_factory=pb.Status)
    views: list[MessageView] = field(default_factory=list)
    next_offset: int | None = None

    def next_pull_offset(self, requested_offset: int) -> int:
        """Return where the next pull begins."""
        behind_last = self.views[-1].offset + 1 if self.views else None
        if self.next_offset is None:
            return requested_offset if behind_last is None else behind_last
        return self.next_offset if behind_last is None else max(self.next_offset, behind_last)


async def pull_batch(
    connection: GrpcConnection, request: rpc.PullMessageRequest, queue: RouteQueue, *, timeout_s: float
) -> PulledBatch:
    """Pull once: messages, or the status MESSAGE_NOT_FOUND or ILLEGAL_OFFSET; all else is raised.

    If the connection breaks in the middle, the messages that arrived are returned.
    """
    pulled = PulledBatch()
    try:
        async for parts in connection.call_streaming(calls.PULL_MESSAGE, request, timeout_s=timeout_s):
            for part in parts:
                kind = part.WhichOneof("content")
                if kind == "message":
                    pulled.views.append(MessageView(part.message, broker=queue.broker, endpoints=queue.endpoints))
                elif kind == "next_offset":
                    pulled.next_offset = part.next_offset
                elif kind == "status":
                    pulled.status = part.status
    except TransportError as error:
        if not pulled.views:
            raise
        logger.log(log_level_of(error), "a pull broke after %d messages: %s", len(pulled.views), error)
    if pulled.views or pulled.status.code in {pb.OK, pb.MESSAGE_NOT_FOUND, pb.ILLEGAL_OFFSET}:
        return pulled
    if pulled.status.code == pb.CODE_UNSPECIFIED:
        raise InternalError(pb.INTERNAL_ERROR, f"{connection.endpoints} ended a pull without a status")
    raise create_error(pulled.status.code, pulled.status.message)


@dataclass(frozen=True, slots=True)
class PullSource:
    """The functions of the consumer that the loop needs: find the position, pull there, and find the start position."""

    begin: Callable[[PullQueue], Awaitable[None]]
    pull: Callable[[PullQueue], Awaitable[PulledBatch]]
    find_start: Callable[[PullQueue], Awaitable[int]]


class QueuePulls:
    """Runs one task for each queue that was started."""

    def __init__(self, source: PullSource, buffer: PullBuffer, *, error_pause_s: float) -> None:
        self._source = source
        self._buffer = buffer
        self._error_pause_s = error_pause_s
        self._tasks = BackgroundTasks(logger)
        self._pulls: dict[PullQueue, asyncio.Task[None]] = {}

    def start_pulling(self, state: PullQueue) -> None:
        """Pull this queue from now on; it may be started already."""
        if state not in self._pulls:
            self._pulls[state] = self._tasks.start(self._pull_forever(state), name=f"ternmq pull {state.name}")

    def stop_pulling(self, state: PullQueue) -> None:
        """Cancel the waiting call; its messages are lost here, which does no harm."""
        if state in self._pulls:
            self._pulls.pop(state).cancel()

    def restart_pulling(self, state: PullQueue) -> None:
        """Restart after a change of the position, if the queue was started at all."""
        if state in self._pulls:
            self.stop_pulling(state)
            self.start_pulling(state)

    async def close(self) -> None:
        self._pulls.clear()
        await self._tasks.stop()

    async def _pull_forever(self, state: PullQueue) -> None:
        while True:
            try:
                pause_s = await self._pull_once(state)
            except ClientError as error:
                logger.log(log_level_of(error), "pulling %s: %s", state.name, error)
                pause_s = self._error_pause_s
            except Exception:
                logger.exception("pulling %s failed", state.name)
                pause_s = self._error_pause_s
            await asyncio.sleep(pause_s)

    async def _pull_once(self, state: PullQueue) -> float:
        """Pull once; return the seconds to wait before the next pull."""
        await state.wait_room()
        await self._source.begin(state)
        requested_offset = state.pulled_offset
        began_s = asyncio.get_running_loop().time()
        pulled = await self._source.pull(state)
        if pulled.status.code == pb.ILLEGAL_OFFSET:
            await self._reset_position(state, requested_offset)
            return self._error_pause_s
        next_offset = pulled.next_pull_offset(requested_offset)
        if next_offset < requested_offset:
            logger.warning("%s is set back from %d to %d by the server", state.name, requested_offset, next_offset)
            self._buffer.seek_queue(state, next_offset)
        else:
            self._buffer.accept_pull(state, pulled.views, next_offset)
        if next_offset > requested_offset:
            return 0.0
        return max(0.0, began_s + self._error_pause_s - asyncio.get_running_loop().time())

    async def _reset_position(self, state: PullQueue, requested_offset: int) -> None:
        queue_offset = await self._source.find_start(state)
        logger.warning("%s has no offset %d: going on at %d", state.name, requested_offset, queue_offset)
        self._buffer.seek_queue(state, queue_offset)
