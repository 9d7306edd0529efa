"""Reads the dead letters of a group by offset, without changing any progress."""

from collections.abc import AsyncIterator

from ternmq.connections import connection as calls
from ternmq.connections.connection import GrpcConnection
from ternmq.connections.route import RouteQueue, TopicRoute
from ternmq.errors import InternalError, NotFound, check_status
from ternmq.messages.message_view import MessageView
from ternmq.pull.offsets import StartFrom, offset_request
from ternmq.pull.queue_pulls import pull_batch
from ternmq_common.limits import PULL_BATCH_MAX
from ternmq_common.names import dead_letter_topic
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

# Of a group's dead letter topic only the first queue has messages.
LETTERS_QUEUE_ID = 0


class DeadLetterReader:
    """The dead letters of one group, read on one connection. Reading stops at the end as it was first seen, so that it
    ends although letters arrive."""

    def __init__(self, connection: GrpcConnection, group: str, *, timeout_s: float) -> None:
        self._connection, self._timeout_s = connection, timeout_s
        self._topic = dead_letter_topic(group)

    async def read_letters(self, broker: str) -> AsyncIterator[MessageView]:
        """Read all brokers, or one, in the order of offsets; nothing if there never was a dead letter."""
        for queue in await self._find_queues():
            if broker in {"", queue.broker}:
                start, stop = await self._query_offset(queue, "earliest"), await self._query_offset(queue, "latest")
                async for view in self._read_between(queue, start, stop):
                    yield view

    async def _find_queues(self) -> list[RouteQueue]:
        endpoints = self._connection.endpoints
        request = rpc.QueryRouteRequest(topic=pb.Resource(name=self._topic), endpoints=endpoints.to_proto())
        answer = await self._connection.call_unary(calls.QUERY_ROUTE, request, timeout_s=self._timeout_s)
        try:
            check_status(answer.status)
        except NotFound:
            return []
        queues = TopicRoute.from_proto(self._topic, answer.message_queues, endpoints).readable
        return sorted((queue for queue in queues if queue.queue_id == LETTERS_QUEUE_ID), key=lambda queue: queue.broker)

    async def _query_offset(self, queue: RouteQueue, place: StartFrom) -> int:
        request = offset_request(queue, place)
        answer = await self._connection.call_unary(calls.QUERY_OFFSET, request, timeout_s=self._timeout_s)
        check_status(answer.status)
        return answer.offset

    async def _read_between(self, queue: RouteQueue, start: int, stop: int) -> AsyncIterator[MessageView]:
        while start < stop:
            request = rpc.PullMessageRequest(
                message_queue=queue.proto,
                offset=start,
                batch_size=min(PULL_BATCH_MAX, stop - start),
                filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
            )
            pulled = await pull_batch(self._connection, request, queue, timeout_s=self._timeout_s)
            for view in pulled.views:
                if view.offset < stop:
                    yield view
            going_on = pulled.next_pull_offset(start)
            if going_on <= start:
                said = f"{self._topic} gives nothing at offset {start}, though it went to {stop}"
                raise InternalError(pb.INTERNAL_ERROR, said)
            start = going_on
