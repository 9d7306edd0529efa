"""The producers of one task: one for rows that go where the server puts them, one for each queue that rows chose.

A producer says with all its calls which queue it wants, so each queue has one of its own, with its own connection.
"""

import asyncio
from types import TracebackType
from typing import Self

from pyspark_ternmq.sink.errors import WriteFailed
from pyspark_ternmq.sink.options import SinkOptions
from ternmq import Producer, Unsupported
from ternmq.offset_reader import OffsetReader
from ternmq.producer import DELIVERY_TIMEOUT_S

QUEUES_MAX = 256


class Producers:
    """`async with Producers(options) as producers: await producers.of("")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._started: dict[str, asyncio.Task[Producer]] = {}
        self._check: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.of("")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for started in self._started.values():
            started.cancel()
        found = await asyncio.gather(*self._started.values(), return_exceptions=True)
        await asyncio.gather(*(producer.close() for producer in found if isinstance(producer, Producer)))

    async def of(self, queue: str) -> Producer:
        """The producer for a queue, or for those that the server chooses if it is empty. ClientError if it can't be
        started now; WriteFailed if it never can be."""
        started = self._started.get(queue)
        if started is None:
            if len(self._started) > QUEUES_MAX:
                raise WriteFailed(f"the rows of one task choose more than {QUEUES_MAX} queues (column queue_id)")
            started = self._started[queue] = asyncio.create_task(self._start(queue))
        try:
            return await asyncio.shield(started)
        except Exception:
            if self._started.get(queue) is started:
                del self._started[queue]
            raise

    async def _start(self, queue: str) -> Producer:
        options = self._options
        if queue:
            if self._check is None or (self._check.done() and self._check.exception() is not None):
                self._check = asyncio.create_task(asyncio.to_thread(self._check_server))
            await asyncio.shield(self._check)
        producer = Producer(
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
