"""The producers of one task: one for rows that go where the server puts them, one for each queue that rows chose.

A producer says with all its calls which queue it wants, so each queue has one of its own, with its own connection.
"""

import asyncio
import itertools
import random
import time
from types import TracebackType
from typing import Protocol, Self

from pyspark_ternmq.sink.errors import WriteFailed
from pyspark_ternmq.sink.options import SinkOptions
from ternmq import ClientError, Producer, Unsupported
from ternmq.connections.connection import SEND_MESSAGE
from ternmq.connections.route import choose_queues
from ternmq.connections.send_request import SendRequest
from ternmq.producing.producer import DELIVERY_TIMEOUT_S
from ternmq.pull.offset_reader import OffsetReader
from ternmq_protos.v2 import definition_pb2 as pb

QUEUES_MAX = 256


class EncodeRequest(Protocol):
    """Encodes a SendMessageRequest of messages for one queue."""

    def __call__(self, *, queue_id: int, born_ns: int) -> bytes: ...


class RequestProducer(Producer):
    """A producer that also sends requests that are encoded already, which it knows as bytes only."""

    _sent = itertools.count(random.randrange(1024))  # noqa: S311 - spreads tasks over the queues

    async def send_encoded(self, topic: str, count: int, encode: EncodeRequest) -> list[int]:
        """Send `count` messages of type NORMAL, once, to a queue of this topic; the places of those that were not
        stored, or of which that isn't known. ClientError if there is no route."""
        self._check_running()
        with self._count_in_flight():
            route = await self._fetch_route_of(topic, transactional=False)
            [queue] = choose_queues(route.require_writable(), turn=next(self._sent), isolated=self._isolated, count=1)
            request = SendRequest(encode(queue_id=queue.queue_id, born_ns=time.time_ns()))
            try:
                response = await self._call_endpoint(queue.endpoints, SEND_MESSAGE, request)
            except ClientError:
                return list(range(count))
        if response.status.code == pb.OK and len(response.entries) in {1, count}:
            return []
        if len(response.entries) == count:
            return [place for place, entry in enumerate(response.entries) if entry.status.code != pb.OK]
        return list(range(count))


class TaskProducers:
    """`async with Producers(options) as producers: await producers.of("")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._started: dict[str, asyncio.Task[RequestProducer]] = {}
        self._check: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.producer_for("")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for started in self._started.values():
            started.cancel()
        found = await asyncio.gather(*self._started.values(), return_exceptions=True)
        await asyncio.gather(*(producer.close() for producer in found if isinstance(producer, Producer)))

    async def producer_for(self, queue: str) -> RequestProducer:
        """The producer for a queue, or for those that the server chooses if it is empty. ClientError if it can't be
        started now; WriteFailed if it never can be."""
        started = self._started.get(queue)
        if started is None:
            if len(self._started) > QUEUES_MAX:
                raise WriteFailed(f"the rows of one task choose more than {QUEUES_MAX} queues (column queue_id)")
            started = self._started[queue] = asyncio.create_task(self._start_producer(queue))
        try:
            return await asyncio.shield(started)
        except Exception:
            if self._started.get(queue) is started:
                del self._started[queue]
            raise

    async def _start_producer(self, queue: str) -> RequestProducer:
        options = self._options
        if queue:
            if self._check is None or (self._check.done() and self._check.exception() is not None):
                self._check = asyncio.create_task(asyncio.to_thread(self._check_server))
            await asyncio.shield(self._check)
        producer = RequestProducer(
            options.connection.endpoint,
            delivery_timeout=min(DELIVERY_TIMEOUT_S, options.delivery_timeout_s),
            queue=queue or None,
            **options.connection.client_options(),
        )
        return await producer.start()

    def _check_server(self) -> None:
        """Others would put rows elsewhere without a word."""
        connection = self._options.connection
        with OffsetReader(
            connection.endpoint, patience=connection.retry_timeout_s, **connection.client_options()
        ) as one:
            try:
                one.topics(["none"])
            except Unsupported:
                raise WriteFailed(
                    "the rows have a column queue_id, and this server is no TernMQ: it chooses queues itself"
                ) from None
