"""The requests of one task on their way to the broker.

In flight   up to `max_in_flight` at a time, reading goes on meanwhile
Order       requests of one lane go one after the other, also when one of them has to be repeated. A request may hold
            several message groups; the broker keeps them apart (Apache RocketMQ stores a request in one queue). Rows
            of a queue that they chose are in one lane too
Failures    what passes is repeated with the same ids until the delivery timeout is over; what doesn't fails the task. A
            request that is refused for one of its messages is sent in halves until that one is found, so that the error
            can name the row
"""

import asyncio
import itertools
import logging
import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from pyspark_ternmq.sink.errors import COLUMN_OF_CODE, WriteFailed, row_failed
from pyspark_ternmq.sink.plain_rows import PlainRequest
from pyspark_ternmq.sink.producers import RequestProducer
from pyspark_ternmq.sink.rows import RowRequest
from ternmq import ClientError, SendManyError
from ternmq_common.pacing.backoff import ExponentialBackoff, add_jitter

logger = logging.getLogger(__name__)

# Beyond the producer's own attempts, which have a part of the time.
BACKOFF = ExponentialBackoff(initial_s=0.1, max_s=2.0)


class RequestSender:
    """Sends through a task's producers: `async with Sender(...) as sender: await sender.put(request)`.

    `producer_of` gives the one for a queue that rows chose, or for all others (`TaskProducers.producer_for`).

    Everything that was put is stored when the block is left without an error.

    Invariants: at most `max_in_flight` tasks; a task of a lane waits for the lane's task before it.
    """

    def __init__(
        self,
        producer_of: Callable[[str], Awaitable[RequestProducer]],
        *,
        partition: int,
        max_in_flight: int,
        delivery_timeout_s: float,
    ) -> None:
        self._producer_of = producer_of
        self._partition = partition
        self._max_in_flight = max_in_flight
        self._delivery_timeout_s = delivery_timeout_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._lanes: dict[tuple[str, int], asyncio.Task[None]] = {}

    async def put(self, request: RowRequest | PlainRequest) -> None:
        """Send one more request as soon as there is room. Raises WriteFailed of an earlier request."""
        while len(self._tasks) >= self._max_in_flight:
            await self._some_done()
        if isinstance(request, PlainRequest):
            self._tasks.add(asyncio.create_task(self._send_plain(request)))
            return
        if request.lane is None:
            self._tasks.add(asyncio.create_task(self._send_request(request)))
            return
        lane = (request.topic, request.lane)
        task = asyncio.create_task(self._send_after(self._lanes.get(lane), request))
        self._lanes[lane] = task
        self._tasks.add(task)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                while self._tasks:
                    await self._some_done()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _some_done(self) -> None:
        done, self._tasks = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for error in [task.exception() for task in done]:  # each exception is retrieved, else asyncio logs it
            if error is not None:
                raise error

    async def _send_after(self, previous: asyncio.Task[None] | None, request: RowRequest) -> None:
        if previous is not None:
            await asyncio.shield(previous)
        await self._send_request(request)

    async def _send_plain(self, plain: PlainRequest) -> None:
        """Send once as encoded bytes; what was not stored then is sent as messages, with all repetitions."""
        count = len(plain.rows)
        try:
            producer = await self._producer_of("")
            failed = await producer.send_encoded(plain.topic, count, plain.encode_request)
        except ClientError:  # before anything was sent
            failed = list(range(count))
        if failed:
            request = plain.as_messages()
            await self._send_request(request if len(failed) == count else request.take_part(failed))

    async def _send_request(self, request: RowRequest) -> None:
        """Send until all of it is stored; WriteFailed when that is refused for good or takes too long."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._delivery_timeout_s
        for attempt in itertools.count(1):
            failures = await self._send_once(request)
            if not failures:
                return
            request = request.take_part(list(failures))
            errors = list(failures.values())
            final = next((place for place, error in enumerate(errors) if not error.retryable), None)
            if final is not None:
                await self._find_refused(request, final, errors[final])
                return
            if clock() > deadline:
                raise self._row_failed(request, 0, errors[0])
            if attempt == 1:  # in the log of the executor: a wrong endpoint would else be silent for minutes
                logger.warning("%s; repeated for up to %g s", errors[0], self._delivery_timeout_s)
            # Not for secrets: it only spreads the repetitions of many tasks.
            await asyncio.sleep(add_jitter(BACKOFF.delay_s(attempt), random.random()))  # noqa: S311

    async def _send_once(self, request: RowRequest) -> dict[int, ClientError]:
        """Send once; the messages that were not stored, by their places in the request, with the reason."""
        try:
            producer = await self._producer_of(request.queue)
            await producer.send_many(request.messages, message_ids=request.message_ids)
        except SendManyError as failed:
            return {place: outcome for place, outcome in enumerate(failed.outcomes) if isinstance(outcome, ClientError)}
        except ClientError as error:  # before anything was sent
            return dict.fromkeys(range(len(request.messages)), error)
        return {}

    async def _find_refused(self, request: RowRequest, place: int, error: ClientError) -> None:
        """Raise the error with its row; it may be due to any message of the request, and is in all their outcomes."""
        count = len(request.messages)
        if count == 1 or error.code not in COLUMN_OF_CODE:
            raise self._row_failed(request, place, error)
        middle = count // 2
        await self._send_request(request.take_part(range(middle)))
        await self._send_request(request.take_part(range(middle, count)))

    def _row_failed(self, request: RowRequest, place: int, error: ClientError) -> WriteFailed:
        return row_failed(error, topic=request.topic, row=request.rows[place], partition=self._partition)
