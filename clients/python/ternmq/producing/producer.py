"""The producer: sends messages and reports the outcome of each.

Attempts    a failed send is repeated on another queue, of another broker first, after a short backoff; a message keeps
            its id, so a message that was stored before its answer got lost may be there twice under one id
Limits      while a server, or the broker behind it, can't be reached: for `delivery_timeout`. A failure that was
            answered and may pass: up to `max_attempts` times within it. A topic whose route isn't known is looked up
            likewise
Never       repeated is what the server refuses for good (all of 4xxxx but TOO_MANY_REQUESTS)
Order       messages of one message group go to one queue, and wait for an earlier one that is being repeated;
            `send_many` sends the requests of a topic one after the other
Close       waits for what is in flight, for as long as its attempts may take: sends, ends of transactions, and running
            checks of orphaned ones
"""

import asyncio
import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Unpack

from ternmq.arguments import check_topics
from ternmq.client import Client
from ternmq.connections import connection as calls
from ternmq.connections.connection import GrpcConnection
from ternmq.connections.route import TopicRoute
from ternmq.errors import (
    BadRequest,
    ClientError,
    DeadlineExceeded,
    PayloadTooLarge,
    SendManyError,
    check_status,
    is_away,
)
from ternmq.hooks import Sending
from ternmq.messages.message import LIMITS, Message, SendReceipt, check_message_ids, has_lone_surrogate
from ternmq.messages.message_id import MESSAGE_IDS
from ternmq.options import ClientOptions
from ternmq.producing.group_order import GroupOrder, SendTurn
from ternmq.producing.published_topics import PublishedTopics
from ternmq.producing.send_attempts import SendAttempts, SendBudget
from ternmq.producing.send_batches import Outcome, SendBatch, split_batches
from ternmq.times.backoff import REACH_BACKOFF, SEND_BACKOFF, read_backoff
from ternmq.times.durations import Seconds, check_span, seconds_above_0
from ternmq.transactions.checking import Checker, TransactionChecks
from ternmq.transactions.transaction import HalfMessage, Transaction, TransactionOwner, TransactionResolution
from ternmq.transactions.transaction_end import END_ATTEMPTS, end_transaction
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)

DELIVERY_TIMEOUT_S = 30.0


class Producer(Client):
    """Sends messages.

        async with Producer("127.0.0.1:8081", topics=["orders"]) as producer:
            receipt = await producer.send(Message("orders", b"...", tag="paid"))
            receipts = await producer.send_many([Message("orders", body) for body in bodies])

    `topics` is optional: named topics are looked up at the start, which fails if they don't exist; others at their
    first message. A send takes `delivery_timeout` seconds at most with all its attempts, each of which takes
    `request_timeout` at most: for so long it is repeated while the server can't be reached, as during its restart.
    Failures that the server answered, and that may pass, are repeated in that time, up to `max_attempts`. What is
    repeated may be stored twice, with one message id: `max_attempts=1` repeats nothing, and the message of a
    transaction has `max_attempts` in all. The other arguments are those of `ternmq.options.ClientOptions`.

    `checker` is a function, plain or coroutine, that decides how a transaction ends when the server asks: it gets
    the message as a `MessageView` and returns a `TransactionResolution` (see `ternmq.transactions.checking`). The
    server asks the producers of a topic, also about transactions that another process began, so name the topics at the
    start: until the first send to a topic that isn't named, the server doesn't know that it can ask this producer. At
    most 16 checks run at a time, plain functions in threads.

    `queue` chooses the queue of all messages, which are NORMAL ones then: `broker-0/3`, or `3`, which is on the same
    broker as long as the brokers don't change. Only TernMQ supports it.

    `compress_from_bytes` compresses longer bodies with gzip. It is off by default, since consumers in C++ and Rust that
    use the official libraries can't read such bodies.
    """

    client_type = pb.PRODUCER
    # A connection repeats them in any order; sends are repeated in theirs.
    _repeats_calls = False

    def __init__(
        self,
        endpoint: str,
        topics: Iterable[str] = (),
        *,
        max_attempts: int = 3,
        delivery_timeout: Seconds = DELIVERY_TIMEOUT_S,
        compress_from_bytes: int | None = None,
        checker: Checker | None = None,
        queue: str | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(endpoint, **options)
        if queue is not None:
            if not queue.isascii() or not queue.isprintable():
                raise ValueError(f"queue={queue!r} is not BROKER/NUMBER or a number")
            self._identity.add_options(f"queue={queue}")
        if max_attempts < 1:
            raise ValueError(f"max_attempts={max_attempts} must be at least 1")
        self._named = dict.fromkeys(check_topics(topics))
        self._topics = PublishedTopics(self._named)
        self._max_attempts = max_attempts
        self._delivery_timeout_s = seconds_above_0("delivery_timeout", delivery_timeout)
        self._compress_from_bytes = compress_from_bytes
        self._body_bytes_max = LIMITS.body_bytes_max
        self._attempts = SendAttempts(
            self._call_endpoint,
            is_connected=self._is_connected,
            isolated=self._isolated,
            max_attempts=max_attempts,
            request_timeout_s=self._request_timeout_s,
            compress_from_bytes=compress_from_bytes,
        )
        self._order = GroupOrder()
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._checks: TransactionChecks | None = None
        if checker is not None:
            end = partial(self._end_transaction, pb.SOURCE_SERVER_CHECK)
            self._checks = TransactionChecks(checker, end, client_id=self.client_id)
        self._topics_without_checker: set[str] = set()
        self._transaction_tasks = BackgroundTasks(logger)

    async def send(self, message: Message) -> SendReceipt:
        """Send one message; return when it is stored."""
        [outcome] = await self._send_observed(self._create_sending(message))
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome

    async def send_many(
        self, messages: Iterable[Message], *, message_ids: Sequence[str] | None = None
    ) -> list[SendReceipt]:
        """Send messages with as few requests as the limits of the server allow: one request for each topic's share.

        Raises `SendManyError` if some failed; it says which. A server of Apache RocketMQ stores each request in one
        queue, regardless of message groups, and refuses several delayed messages in one request.

        `message_ids` sets the ids of the messages, for callers that may have to send the same messages again after a
        crash and want them to be recognized; `BadRequest` for an id that is blank or has control characters. The caller
        has to give different messages different ids: no server checks that.
        """
        messages = list(messages)
        if message_ids is None:
            message_ids = MESSAGE_IDS.next_ids(len(messages))
        else:
            check_message_ids(message_ids, len(messages))
        outcomes: list[Outcome | None] = [None] * len(messages)
        by_topic = split_batches(messages, bytes_max=self._body_bytes_max)
        await asyncio.gather(*(self._send_in_order(batches, message_ids, outcomes) for batches in by_topic.values()))
        receipts = [outcome for outcome in outcomes if isinstance(outcome, SendReceipt)]
        if len(receipts) < len(messages):
            raise SendManyError([outcome for outcome in outcomes if outcome is not None])
        return receipts

    def begin_transaction(self, *, recovery: timedelta | None = None) -> Transaction:
        """Begin a transaction of one message: delivered when the block ends, dropped when the block fails.

            async with producer.begin_transaction() as transaction:
                await transaction.send(Message("orders", b"..."))
                await database.execute(...)

        The topic must be of type TRANSACTION. `recovery` is how long the server waits before it first asks a checker,
        up to an hour; by default it is the server's setting (6 s). It should be longer than the work takes: a checker
        that is called in the middle of it must return UNKNOWN. `Transaction` says what happens when something fails.
        """
        if recovery is not None:
            check_span("recovery", recovery)
        owner = TransactionOwner(
            send_half=self._send_half,
            end_half=partial(self._end_transaction, pb.SOURCE_CLIENT),
            tasks=self._transaction_tasks,
            leave_timeout_s=self._request_timeout_s,
        )
        return Transaction(owner, recovery)

    async def recall(self, receipt: SendReceipt) -> None:
        """Recall a delayed message before its time; see `recall_handle`."""
        if not receipt.recall_handle:
            raise BadRequest(
                pb.BAD_REQUEST, f"{receipt.message_id} isn't a delayed message that waits, it can't be recalled"
            )
        await self.recall_handle(receipt.topic, receipt.recall_handle)

    async def recall_handle(self, topic: str, handle: str) -> str:
        """Recall a delayed message by the `recall_handle` of its receipt; return its id.

        The handle is text that can be stored; any producer can use it. `BadRequest` if it is too late, or if the handle
        isn't one of this topic (Apache RocketMQ: `InternalError`).
        """
        self._check_running()
        if has_lone_surrogate(topic) or has_lone_surrogate(handle):
            raise BadRequest(pb.BAD_REQUEST, f"{handle!r} of {topic!r} must not hold lone surrogates")
        request = rpc.RecallMessageRequest(topic=pb.Resource(name=topic), recall_handle=handle)
        response = await self._call_endpoint(self._access_point, calls.RECALL_MESSAGE, request)
        check_status(response.status)
        return response.message_id

    def _create_settings(self) -> pb.Settings:
        settings = super()._create_settings()
        settings.publishing.topics.extend(pb.Resource(name=topic) for topic in self._topics.settings_topics)
        settings.publishing.validate_message_type = True
        settings.publishing.max_body_size = self._body_bytes_max
        settings.backoff_policy.max_attempts = self._max_attempts
        settings.backoff_policy.exponential_backoff.multiplier = 1.0
        return settings

    def _apply_settings(self, connection: GrpcConnection, settings: pb.Settings) -> None:
        super()._apply_settings(connection, settings)
        if settings.publishing.max_body_size > 0:
            self._body_bytes_max = settings.publishing.max_body_size
        self._attempts.backoff = read_backoff(settings.backoff_policy, SEND_BACKOFF)

    async def _start_work(self) -> None:
        await super()._start_work()
        await self._fetch_first_routes(self._named)

    async def _answer_command(
        self, connection: GrpcConnection, command: rpc.TelemetryCommand
    ) -> rpc.TelemetryCommand | None:
        """Answer commands, and check orphaned transactions; the result of a check is sent by a call of its own."""
        if command.WhichOneof("command") != "recover_orphaned_transaction_command":
            return await super()._answer_command(connection, command)
        orphan = command.recover_orphaned_transaction_command
        topic = orphan.message.topic.name
        if self._checks is not None:
            self._checks.begin_check(connection.endpoints, orphan)
        elif topic not in self._topics_without_checker:
            self._topics_without_checker.add(topic)  # logged once: the server may ask about thousands
            logger.warning("%s has no checker and gets transaction checks of %s", self.client_id, topic)
        return None

    async def _finish_work(self) -> None:
        """Let what is in flight use up its time; after that it fails with NotRunning as connections close."""
        extra_s = self._timing.attempt_extra_s
        ends_s = END_ATTEMPTS * (self._request_timeout_s + extra_s)
        budget = SendBudget(max(self._delivery_timeout_s + extra_s, ends_s))
        if self._checks is not None:
            await self._checks.finish_checks(budget.left_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(budget.left_s):
                await self._idle.wait()

    async def _fetch_route_of(self, topic: str, *, transactional: bool) -> TopicRoute:
        """Return the route, after the server was notified that this producer publishes to one more topic."""
        is_new = topic not in self._topics
        has_to_be_sent = self._topics.add_topic(topic, transactional=transactional)
        try:
            route = await self._routes.get_route(topic)
        except BaseException:
            if is_new:
                self._topics.drop_topic(topic)
            raise
        if has_to_be_sent:
            await self._send_settings()
        return route

    async def _send_in_order(
        self, batches: list[SendBatch], message_ids: Sequence[str], outcomes: list[Outcome | None]
    ) -> None:
        for batch in batches:
            ids = [message_ids[place] for place in batch.places]
            answered = await self._send_observed(Sending(self.client_id, batch.topic, batch.messages, ids))
            for place, outcome in zip(batch.places, answered, strict=True):
                outcomes[place] = outcome
            if all(map(is_away, answered)):
                break  # it was waited for, and each further request would take as long
        for place in (place for batch in batches for place in batch.places if outcomes[place] is None):
            outcomes[place] = answered[-1]

    def _create_sending(self, message: Message) -> Sending:
        return Sending(self.client_id, message.topic, [message], MESSAGE_IDS.next_ids(1))

    async def _send_observed(self, sending: Sending) -> list[Outcome]:
        """Send one request; return its outcomes. Observed by the hooks, waited for by `close`."""
        self._check_running()
        tokens = self._hooks.send_started(sending)
        outcomes: list[Outcome] = []
        try:
            with self._count_in_flight():
                outcomes = await self._send_attempts(sending)
        except ClientError as error:
            outcomes = [error] * len(sending.messages)
        finally:
            self._hooks.send_finished(tokens, sending, outcomes)
        return outcomes

    @contextmanager
    def _count_in_flight(self) -> Iterator[None]:
        """Count work that `close` waits for."""
        self._in_flight += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def _send_attempts(self, sending: Sending) -> list[Outcome]:
        budget = SendBudget(self._delivery_timeout_s)
        groups = {key for message in sending.messages if (key := message.order_key) is not None}
        with self._order.create_turn(sending.topic, groups) as turn:
            route = await self._wait_route(sending, budget, turn)
            self._check_sizes(sending.messages)
            return await self._attempts.send_messages(sending, route, budget, turn)

    async def _wait_route(self, sending: Sending, budget: SendBudget, turn: SendTurn) -> TopicRoute:
        """Return the route, also if the server is away for a while; else raise the last failure."""
        away: ClientError | None = None
        for attempt in itertools.count(2):
            try:
                async with asyncio.timeout(budget.left_s):
                    return await self._fetch_route_of(sending.topic, transactional=sending.transactional)
            except TimeoutError:
                late = DeadlineExceeded(str(self._access_point), f"no route of {sending.topic} in time")
                raise (away or late) from None
            except ClientError as error:
                if not is_away(error):
                    raise
                away = error
                turn.mark_repeating()
                if not await budget.try_pause(REACH_BACKOFF.delay_s(attempt)):
                    raise
                if not await turn.wait_turn(timeout_s=budget.left_s):
                    raise
        raise AssertionError("the loop above has no end")

    def _check_sizes(self, messages: Sequence[Message]) -> None:
        longest = max(len(message.body) for message in messages)
        if longest > self._body_bytes_max and self._compress_from_bytes is None:
            raise PayloadTooLarge(
                pb.MESSAGE_BODY_TOO_LARGE, f"a body has {longest} bytes; the server takes {self._body_bytes_max}"
            )

    # Transactions.

    async def _send_half(self, message: Message, recovery: timedelta | None) -> tuple[SendReceipt, HalfMessage]:
        sending = self._create_sending(message)
        sending.transactional, sending.recovery = True, recovery
        [outcome] = await self._send_observed(sending)
        if isinstance(outcome, ClientError):
            raise outcome
        assert sending.endpoints is not None
        topic = pb.Resource(name=outcome.topic)
        half = HalfMessage(topic, outcome.message_id, outcome.transaction_id, sending.endpoints, sending.trace_context)
        return outcome, half

    async def _end_transaction(
        self, source: pb.TransactionSource, half: HalfMessage, resolution: TransactionResolution
    ) -> None:
        with self._count_in_flight():
            await end_transaction(self._call_endpoint, half, resolution, source, self._timing.end_backoff)
