"""A transaction: a message that is stored at once and delivered only if its producer's own work succeeds.

The message is a half message until the transaction ends: no consumer sees it. COMMIT delivers it, ROLLBACK drops it. A
half message whose end the server never learns is an orphan: after a while the server asks a live producer of the topic,
whose checker answers (`ternmq.transactions.checking`).

Interrupted   a send that was cancelled goes on, since it may be stored already, and is rolled back when that is known
Invariants    at most one message is stored as far as is known; `_resolution` is set once; `_ending` is only ever
              replaced by another attempt for the same resolution
Ending        a call to the server that has begun goes on when its caller is cancelled; the producer's close waits
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from types import TracebackType
from typing import Self

from ternmq.connections.endpoints import Endpoints
from ternmq.errors import BadRequest, ClientError
from ternmq.messages.message import LIMITS, Message, SendReceipt
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_protos.v2 import definition_pb2 as pb

logger = logging.getLogger(__name__)


class TransactionResolution(Enum):
    """How a transaction ends, or that a checker can't decide yet."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HalfMessage:
    """The data needed to end a transaction; `endpoints` is the server that knows it."""

    topic: pb.Resource
    message_id: str
    transaction_id: str
    endpoints: Endpoints
    trace_context: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionOwner:
    """The functions of the producer that a transaction needs.

    `tasks` keeps tasks until they are done. `leave_timeout_s` is how long a failed block waits for its rollback.
    """

    send_half: Callable[[Message, timedelta | None], Coroutine[None, None, tuple[SendReceipt, HalfMessage]]]
    end_half: Callable[[HalfMessage, TransactionResolution], Awaitable[None]]
    tasks: BackgroundTasks
    leave_timeout_s: float


class Transaction:
    """One message whose delivery waits for the producer's own work; created by `Producer.begin_transaction`.

        async with producer.begin_transaction() as transaction:
            await transaction.send(Message("orders", b"..."))
            await database.execute(...)

    Leaving the block without an exception commits, with one it rolls back; `commit` and `rollback` do so earlier, or
    without a block. The first of the two that is called counts; calling it again is harmless, and is the way to
    repeat a call that failed. What can happen:

    `send` fails            nothing was stored as far as is known, and leaving ends nothing. If the message was
                                 stored
                            and only the answer was lost, it is an orphan, and the checker is called
    the commit fails        it is repeated for a while. Then `TransactionOutcomeUnknown`: the local work is done, and
                            unless the server has the commit, it will ask the checker. `TransactionRefused`: the
                            message won't be delivered, since a checker or an operator rolled it back, or no checker
                            answered the server's checks in time
    the block fails         its exception is raised, even if the rollback fails; if that can't be sent to the server,
                            the failure is logged, and the checker is called
    the block is cancelled  the same; the wait for the rollback is limited, and it goes on in the background
    the process dies        the checker of another producer of the topic is called, or of this one when it is back
    """

    def __init__(self, owner: TransactionOwner, recovery: timedelta | None) -> None:
        self._owner = owner
        self._recovery = _check_recovery(recovery)
        self._sending: asyncio.Task[tuple[SendReceipt, HalfMessage]] | None = None
        self._half: HalfMessage | None = None
        self._resolution: TransactionResolution | None = None
        self._ending: asyncio.Task[None] | None = None

    async def send(self, message: Message) -> SendReceipt:
        """Store the message of this transaction; no consumer receives it before the commit.

        There is only one: a second `send` is a `BadRequest`, unless the first one failed. A message that is
        ordered, delayed or has a priority or a lite topic is refused before it is sent
        (MESSAGE_PROPERTY_CONFLICT_WITH_TYPE).
        """
        if self._resolution is not None:
            raise BadRequest(pb.BAD_REQUEST, "this transaction has ended; begin another one")
        if self._sending is not None:
            raise BadRequest(
                pb.BAD_REQUEST, "a transaction has one message, and this one's was sent; begin another one"
            )
        if message.message_type != pb.NORMAL:
            raise BadRequest(
                pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                "a message of a transaction can't be ordered, delayed, have a priority or a lite topic",
            )
        self._sending = self._owner.tasks.start_awaited(self._owner.send_half(message, self._recovery))
        try:
            receipt, self._half = await asyncio.shield(self._sending)
        except Exception:
            self._sending = None
            raise
        return receipt

    async def commit(self) -> None:
        """Have the message delivered; see the class for what can go wrong."""
        if self._half is None:
            raise BadRequest(pb.BAD_REQUEST, "there is nothing to commit: no message of this transaction was stored")
        await self._end_and_wait(TransactionResolution.COMMIT)

    async def rollback(self) -> None:
        """Drop the message, if there is one."""
        await self._end_and_wait(TransactionResolution.ROLLBACK)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._resolution is not None:
            return  # the block has ended the transaction itself, and knows the result
        if error is None and self._half is not None:
            await self.commit()
            return
        ending = self._start_ending(TransactionResolution.ROLLBACK)
        ending.add_done_callback(self._log_failure)
        await asyncio.wait([ending], timeout=self._owner.leave_timeout_s)

    async def _end_and_wait(self, resolution: TransactionResolution) -> None:
        ending = self._start_ending(resolution)
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            ending.add_done_callback(self._log_failure)
            raise

    def _start_ending(self, resolution: TransactionResolution) -> asyncio.Task[None]:
        if self._resolution not in {None, resolution}:
            assert self._resolution is not None
            raise BadRequest(
                pb.BAD_REQUEST, f"this transaction has its {self._resolution.value}; a {resolution.value} is too late"
            )
        self._resolution = resolution
        if self._ending is None or _has_failed(self._ending):
            self._ending = self._owner.tasks.start_awaited(self._end_at_server(resolution))
        return self._ending

    async def _end_at_server(self, resolution: TransactionResolution) -> None:
        """End it at the server; an interrupted send is waited for, since it may still store the message."""
        half = self._half
        if half is None and self._sending is not None:
            try:
                _, half = await self._sending
            except ClientError:
                return  # nothing to roll back, or the server would not know it
        if half is not None:
            await self._owner.end_half(half, resolution)

    def _log_failure(self, ending: asyncio.Task[None]) -> None:
        """Log the failure of a commit or rollback whose caller no longer waits."""
        if not ending.cancelled() and (error := ending.exception()) is not None:
            assert self._resolution is not None
            logger.warning("a %s failed: %s", self._resolution.value, error)


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _check_recovery(recovery: timedelta | None) -> timedelta | None:
    longest = timedelta(milliseconds=LIMITS.transaction_recovery_max_ms)
    if recovery is not None and not timedelta(0) < recovery <= longest:
        raise BadRequest(pb.BAD_REQUEST, f"recovery {recovery} must be above 0 and at most {longest}")
    return recovery
