"""The producer: sends messages and says what became of them.

Attempts    a failed send is repeated on another queue, of another broker first, after a short growing pause; a message
            keeps its id, so a message that was stored before its answer got lost may be there twice under one id
Never       repeated is what the server refuses for good (all of 4xxxx but TOO_MANY_REQUESTS)
Order       messages of one message group go to one queue; `send_many` sends the requests of a topic one after the other
"""

import asyncio
import itertools
import random
import time
from collections.abc import Iterable, Sequence
from typing import Unpack

from ternmq import connection as calls
from ternmq.backoff import SEND_BACKOFF, Backoff, backoff_of, jittered
from ternmq.client import Client
from ternmq.connection import Connection
from ternmq.errors import BadRequest, ClientError, PayloadTooLarge, SendManyError, check
from ternmq.hooks import Sending
from ternmq.message import LIMITS, Message, SendReceipt
from ternmq.message_id import MESSAGE_IDS
from ternmq.options import ClientOptions
from ternmq.outgoing import Batch, Outcome, batches_of, build_request, outcomes_of, repeatable, set_queue
from ternmq.route import Queue, Route, queue_of_group, queues_to_try
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc


class Producer(Client):
    """Sends messages.

        async with Producer("127.0.0.1:8081", topics=["orders"]) as producer:
            receipt = await producer.send(Message("orders", b"...", tag="paid"))
            receipts = await producer.send_many([Message("orders", body) for body in bodies])

    `topics` is optional: topics that are named are looked up at the start, which then fails if they don't exist; others
    at their first message. A send is tried `max_attempts` times, for `request_timeout` seconds each. The other
    arguments are those of `ternmq.options.ClientOptions`.

    `compress_from_bytes` compresses longer bodies with gzip. It is off by default, since consumers in C++ and Rust that
    use the official libraries can't read such bodies.
    """

    client_type = pb.PRODUCER

    def __init__(
        self,
        endpoint: str,
        topics: Iterable[str] = (),
        *,
        max_attempts: int = 3,
        compress_from_bytes: int | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(endpoint, **options)
        if max_attempts < 1:
            raise ValueError(f"max_attempts={max_attempts} must be at least 1")
        self._topics = dict.fromkeys(topics)
        self._max_attempts = max_attempts
        self._compress_from_bytes = compress_from_bytes
        self._body_bytes_max = LIMITS.body_bytes_max
        self._backoff: Backoff = SEND_BACKOFF
        self._turn = itertools.count(random.randrange(1024))  # noqa: S311 - spreads producers over the queues
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def send(self, message: Message) -> SendReceipt:
        """Send one message; returns when it is stored."""
        [outcome] = await self._send(Batch(message.topic, [message], [0]))
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome

    async def send_many(self, messages: Iterable[Message]) -> list[SendReceipt]:
        """Send messages with as few requests as the limits of the server allow: one request for each topic's share.

        Raises `SendManyError` if some failed; it tells which. A server of Apache RocketMQ stores each request in one
        queue, whatever the message groups, and refuses several delayed messages in one request.
        """
        messages = list(messages)
        outcomes: list[Outcome | None] = [None] * len(messages)
        by_topic = batches_of(messages, bytes_max=self._body_bytes_max)
        await asyncio.gather(*(self._send_in_order(batches, outcomes) for batches in by_topic.values()))
        receipts = [outcome for outcome in outcomes if isinstance(outcome, SendReceipt)]
        if len(receipts) < len(messages):
            raise SendManyError([outcome for outcome in outcomes if outcome is not None])
        return receipts

    async def recall(self, receipt: SendReceipt) -> None:
        """Take back a delayed message before its time."""
        self._check_running()
        if not receipt.recall_handle:
            raise BadRequest(pb.BAD_REQUEST, f"{receipt.message_id} isn't a delayed message, it can't be recalled")
        request = rpc.RecallMessageRequest(topic=pb.Resource(name=receipt.topic), recall_handle=receipt.recall_handle)
        response = await self._call(self._access_point, calls.RECALL_MESSAGE, request)
        check(response.status)

    def _settings(self) -> pb.Settings:
        settings = super()._settings()
        topics = sorted({*self._topics, *self._routes.topics})
        settings.publishing.topics.extend(pb.Resource(name=topic) for topic in topics)
        settings.publishing.validate_message_type = True
        settings.publishing.max_body_size = self._body_bytes_max
        settings.backoff_policy.max_attempts = self._max_attempts
        settings.backoff_policy.exponential_backoff.multiplier = 1.0
        return settings

    def _take_settings(self, connection: Connection, settings: pb.Settings) -> None:
        super()._take_settings(connection, settings)
        if settings.publishing.max_body_size > 0:
            self._body_bytes_max = settings.publishing.max_body_size
        self._backoff = backoff_of(settings.backoff_policy, SEND_BACKOFF)

    async def _started(self) -> None:
        await super()._started()
        await self._first_routes(self._topics)

    async def _finish(self) -> None:
        """Sends in flight may use up their attempts, not more."""
        try:
            async with asyncio.timeout(self._max_attempts * (self._request_timeout_s + 1.0)):
                await self._idle.wait()
        except TimeoutError:
            pass  # they fail with NotRunning when the connections close

    async def _route(self, topic: str) -> Route:
        """The route, after the server was told that this producer has one more topic."""
        if topic in self._topics:
            return await self._routes.get(topic)
        self._topics[topic] = None
        try:
            route = await self._routes.get(topic)
        except ClientError:
            self._topics.pop(topic, None)
            raise
        await self._send_settings()
        return route

    async def _send_in_order(self, batches: list[Batch], outcomes: list[Outcome | None]) -> None:
        for batch in batches:
            for place, outcome in zip(batch.places, await self._send(batch), strict=True):
                outcomes[place] = outcome

    async def _send(self, batch: Batch) -> list[Outcome]:
        """The outcomes of one request; observed by the hooks, waited for by `close`."""
        self._check_running()
        sending = Sending(self.client_id, batch.topic, batch.messages, MESSAGE_IDS.next_ids(len(batch.messages)))
        tokens = self._hooks.send_started(sending)
        self._in_flight += 1
        self._idle.clear()
        outcomes: list[Outcome] = []
        try:
            outcomes = await self._attempt(sending)
        except ClientError as error:
            outcomes = [error] * len(batch.messages)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()
            self._hooks.send_finished(tokens, sending, outcomes)
        return outcomes

    async def _attempt(self, sending: Sending) -> list[Outcome]:
        route = await self._route(sending.topic)
        self._check_sizes(sending.messages)
        outcomes: list[Outcome] = []
        places = list(range(len(sending.messages)))
        for attempt, queue in enumerate(self._queues(route, sending.messages[0]), start=1):
            part = sending if attempt == 1 else _part(sending, places)
            answered = await self._send_once(part, queue)
            if attempt == 1:
                outcomes = answered
            for place, outcome in zip(places, answered, strict=True):
                outcomes[place] = outcome
            places = [places[index] for index in repeatable(answered, part.messages)]
            if not places or attempt == self._max_attempts:
                break
            await self._pause(attempt)
        return outcomes

    async def _send_once(self, sending: Sending, queue: Queue) -> list[Outcome]:
        request = build_request(sending, born_ns=time.time_ns(), compress_from_bytes=self._compress_from_bytes)
        set_queue(request, queue.queue_id)
        try:
            response = await self._call(queue.endpoints, calls.SEND_MESSAGE, request)
        except ClientError as error:
            return [error] * len(sending.messages)
        return outcomes_of(sending.topic, sending.message_ids, response)

    def _queues(self, route: Route, first: Message) -> list[Queue]:
        queues = route.checked_writable()
        if first.message_group is not None:
            return [queue_of_group(queues, first.message_group)] * self._max_attempts
        return queues_to_try(queues, turn=next(self._turn), isolated=self._isolated, count=self._max_attempts)

    def _check_sizes(self, messages: Sequence[Message]) -> None:
        longest = max(len(message.body) for message in messages)
        if longest > self._body_bytes_max and self._compress_from_bytes is None:
            raise PayloadTooLarge(
                pb.MESSAGE_BODY_TOO_LARGE, f"a body has {longest} bytes; the server takes {self._body_bytes_max}"
            )

    async def _pause(self, attempt: int) -> None:
        # Not for secrets: it only spreads the repetitions of many producers.
        await asyncio.sleep(jittered(self._backoff.delay_s(attempt + 1), random.random()))  # noqa: S311


def _part(sending: Sending, places: list[int]) -> Sending:
    return Sending(
        sending.client_id,
        sending.topic,
        [sending.messages[place] for place in places],
        [sending.message_ids[place] for place in places],
        sending.trace_context,
    )
