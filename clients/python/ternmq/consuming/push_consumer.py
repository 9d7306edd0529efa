"""The push consumer: keeps messages coming and calls a listener for each.

Receive     one poll per assigned queue always waits at the server; received messages stay hidden until they are
            settled, the server renews that by itself (`auto_renew`)
Unordered   success acknowledges; failure gives the message back with the group's backoff, or as `RetryLater` says
Ordered     (the group is FIFO) one message of a message group at a time; failure is repeated here with the backoff, the
            followers wait; after the last attempt the message goes to the dead-letter queue
Prefetch    twice as many messages as `concurrency`, in addition to those in progress: a slow consumer leaves the others
            to members that have time. A message group of an ordered group counts as one
Close       no more polls; running listeners may end, within `drain_timeout`. The rest, and what polls still bring, is
            given back, to be delivered to others at once, in order, without counting as an attempt; acknowledgements
            are sent; then the client terminates
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Unpack

from ternmq.clock_jumps import add_listener
from ternmq.connections import connection as calls
from ternmq.connections.connection import GrpcConnection
from ternmq.connections.isolated_endpoints import log_level_of
from ternmq.connections.route import RouteQueue
from ternmq.consuming.ack_sender import AckSender
from ternmq.consuming.consumer import Consumer
from ternmq.consuming.consumption_pool import CANCELLED_WITHIN_S, ConsumptionPool
from ternmq.consuming.listener_calls import ConsumeOutcome, Listener, ListenerCalls
from ternmq.consuming.message_returns import MessageReturns
from ternmq.consuming.queue_assignments import QueueAssignments
from ternmq.consuming.receive_call import receive_messages
from ternmq.consuming.receive_polls import PollTerms, ReceivePolls
from ternmq.errors import ClientError, TooManyRequests, check_status
from ternmq.hooks import ConsumeResult
from ternmq.messages.filters import Subscriptions
from ternmq.messages.message_view import MessageView
from ternmq.options import ClientOptions
from ternmq.process.program_signals import OverdueExit, ProgramSignals
from ternmq.times.backoff import CONSUME_BACKOFF, Backoff, read_backoff
from ternmq.times.durations import Seconds, seconds_from_0
from ternmq.times.wire_time import to_duration, to_seconds
from ternmq_common.event_loop.background_tasks import cancel_tasks
from ternmq_common.limits import DEFAULT_MAX_ATTEMPTS, MIB, RECEIVE_BATCH_MAX
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)

# For an ordered group, whose message groups may have many messages each; see `PREFETCH`.
CACHED_MESSAGES_MAX = 1024
# The message of each listener and two ahead: with one ahead, quick listeners wait for polls (measured).
PREFETCH = 3
CACHED_BYTES_MAX = 64 * MIB
LONG_POLLING_S = 20.0
THROTTLED_PAUSE_S = 0.02


class PushConsumer(Consumer):
    """Calls `listener` for every message.

        async def listener(view: MessageView) -> None:
            print(view.body)

        async with PushConsumer("127.0.0.1:8081", group="billing", subscriptions={"orders": "*"}, listener=listener):
            await asyncio.Event().wait()

    A listener that returns (nothing, or `ConsumeResult.SUCCESS`) acknowledges the message; `ConsumeResult.FAILURE` or
    an exception gives it back with the group's backoff, `RetryLater(timedelta(minutes=5))` for so long. `concurrency`
    listeners run at a time: coroutine functions on the event loop, plain functions in threads. Whether order is kept is
    a property of the group on the server. The other arguments are those of `ternmq.options.ClientOptions`.

    `cached_messages_max` is how many messages are here at most, including those in progress; by default about three
    times `concurrency` (message groups, where order is kept), so that other consumers get what this one has no time
    for. `drain_timeout` is for how many seconds `close` waits for listeners; it gives back what was not started.
    """

    client_type = pb.PUSH_CONSUMER
    _suspends = False

    def __init__(
        self,
        endpoint: str,
        group: str,
        subscriptions: Subscriptions,
        listener: Listener,
        *,
        concurrency: int = 20,
        cached_messages_max: int | None = None,
        cached_bytes_max: int = CACHED_BYTES_MAX,
        drain_timeout: Seconds = 30.0,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            endpoint,
            group,
            subscriptions,
            **options,
        )
        if concurrency < 1 or (cached_messages_max is not None and cached_messages_max < 1):
            raise ValueError(f"{concurrency=} and {cached_messages_max=} must be at least 1")
        self._listener = listener
        self._concurrency = concurrency
        self._prefetch_max = cached_messages_max or PREFETCH * concurrency
        self._cached_messages_max = cached_messages_max or max(CACHED_MESSAGES_MAX, self._prefetch_max)
        self._cached_bytes_max = cached_bytes_max
        self._drain_timeout_s = seconds_from_0("drain_timeout", drain_timeout)
        self._fifo = False
        self._batch_size = RECEIVE_BATCH_MAX
        self._poll_s = LONG_POLLING_S
        self._max_attempts = DEFAULT_MAX_ATTEMPTS
        self._backoff: Backoff = CONSUME_BACKOFF
        self._receiving: dict[RouteQueue, asyncio.Task[None]] = {}
        self._assigning = QueueAssignments(
            self._filters,
            self._query_assignment,
            self._received_queues,
            period_s=self._timing.assignment_s,
            on_found=self._send_settings_again,
        )
        self._polls = ReceivePolls(self._accept_unwanted)
        self._giving_back = MessageReturns(
            lambda: self.client_id, self._change_invisible_duration, timeout_s=self._request_timeout_s
        )
        self._acker = AckSender(self._ack_once, error_pause_s=self._timing.error_pause_s)
        self._assigner: asyncio.Task[None] | None = None
        self._listener_calls: ListenerCalls | None = None
        self._consumption: ConsumptionPool | None = None
        self._hung_listener: str | None = None
        self._ignore_jumps: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Consume until SIGINT or SIGTERM, then close: a program is `asyncio.run(PushConsumer(...).run())`. Outside of
        the main thread, which alone gets signals, until `close` is called.

        A second signal ends the process at once. A listener that hangs delays the end for `drain_timeout` and the
        seconds that acknowledgements take: then `run` returns; if the listener blocks the event loop, or ignores its
        cancellation, the process ends there with exit code 1."""
        loop = asyncio.get_running_loop()
        with self._create_signals(lambda: not loop.is_closed()) as signals:
            async with self:
                await signals.wait_signal(self.closed)

    def _create_signals(self, is_kept: Callable[[], bool]) -> ProgramSignals:
        """Create the signal handling of a program. `is_kept`: whether a listener that has not returned keeps the
        process."""

        def is_stuck() -> bool:
            return self._consumption is not None and not self._consumption.is_ended and is_kept()

        def why() -> str:
            running = None if self._listener_calls is None else self._listener_calls.describe_running()
            return f"{self.client_id}: {running or self._hung_listener or 'closing hangs'}"

        calls_s = 2 * self._request_timeout_s + self._timing.error_pause_s
        within_s = self._drain_timeout_s + CANCELLED_WITHIN_S + calls_s
        return ProgramSignals(
            lambda: self._consumption is not None, OverdueExit(within_s, is_stuck=is_stuck, describe_reason=why)
        )

    def _log_late(self, messages: int) -> None:
        """Log that listeners have not returned within the drain timeout."""
        assert self._listener_calls is not None
        self._hung_listener = (
            self._listener_calls.describe_running() or "the result of the listener could not be settled"
        )
        text = "%s: %s; not done within drain_timeout (%g s): %d messages, which are delivered again"
        logger.warning(text, self.client_id, self._hung_listener, self._drain_timeout_s, messages)

    def _apply_settings(self, connection: GrpcConnection, settings: pb.Settings) -> None:
        super()._apply_settings(connection, settings)
        subscription = settings.subscription
        self._fifo = subscription.fifo
        self._batch_size = subscription.receive_batch_size or RECEIVE_BATCH_MAX
        self._poll_s = to_seconds(subscription.long_polling_timeout) or LONG_POLLING_S
        self._max_attempts = settings.backoff_policy.max_attempts or DEFAULT_MAX_ATTEMPTS
        self._backoff = read_backoff(settings.backoff_policy, CONSUME_BACKOFF)

    async def _answer_command(
        self, connection: GrpcConnection, command: rpc.TelemetryCommand
    ) -> rpc.TelemetryCommand | None:
        """Answer commands, and verify a message for an operator: the listener is called, nothing is settled."""
        if command.WhichOneof("command") != "verify_message_command" or self._listener_calls is None:
            return await super()._answer_command(connection, command)
        result = rpc.VerifyMessageResult(nonce=command.verify_message_command.nonce)
        if self._fifo:
            status = pb.Status(code=pb.VERIFY_FIFO_MESSAGE_UNSUPPORTED, message="the group is ordered")
            return rpc.TelemetryCommand(status=status, verify_message_result=result)
        message = command.verify_message_command.message
        view = MessageView(message, broker="", endpoints=self._access_point)
        consumed = await self._listener_calls.call_listener(view)
        code = pb.OK if consumed.result is ConsumeResult.SUCCESS else pb.FAILED_TO_CONSUME_MESSAGE
        return rpc.TelemetryCommand(status=pb.Status(code=code), verify_message_result=result)

    async def _start_work(self) -> None:
        await super()._start_work()
        self._listener_calls = ListenerCalls(
            self._listener,
            concurrency=self._concurrency,
            hooks=self._hooks,
            client_id=self.client_id,
            group=self.group,
            suspends=self._suspends,
        )
        self._consumption = ConsumptionPool(
            self._consume_message,
            concurrency=self._concurrency,
            lanes_max=self._prefetch_max,
            messages_max=self._cached_messages_max,
            bytes_max=self._cached_bytes_max,
        )
        self._ignore_jumps = add_listener(self._access_point, self._consumption.advance_clock)
        await self._assign_queues()
        self._assigner = self._tasks.start(self._assign_forever(self._assigning, self._assign_queues))

    async def _finish_work(self) -> None:
        self._ignore_jumps()
        if self._consumption is not None:
            self._consumption.stop_starting()
        receivers = [*self._receiving.values(), *([self._assigner] if self._assigner else [])]
        await cancel_tasks(receivers)
        ending = self._tasks.start(self._end_polls(self._polls))
        if self._consumption is not None:
            giving_back = self._tasks.start(self._giving_back.return_all(self._consumption.unstarted))
            await self._consumption.wait_finished(self._drain_timeout_s, self._log_late)
            await asyncio.wait([giving_back])
        await asyncio.wait([ending])
        await self._giving_back.wait_returns()
        if self._listener_calls is not None:
            self._listener_calls.close()
        await self._acker.finish_acks(self._request_timeout_s + self._timing.error_pause_s)

    # Assignment: which queues to poll.

    async def _assign_queues(self, *, missing_only: bool = False) -> None:
        """Poll the queues that the server names, and no others."""
        assigned = await self._assigning.wanted_queues(self.client_id, missing_only=missing_only)
        for queue in assigned - self._receiving.keys():
            self._receiving[queue] = self._tasks.start(self._receive_forever(queue))
        # The polls that wait at the server end by themselves.
        await cancel_tasks([self._receiving.pop(queue) for queue in self._receiving.keys() - assigned])

    async def _send_settings_again(self) -> None:
        """Send the settings again: only the first topic that exists may decide whether the group is ordered."""
        try:
            await asyncio.gather(*(session.resend_settings() for session in self._sessions.values()))
        except ClientError as error:
            logger.log(log_level_of(error), "%s: the settings could not be sent again: %s", self.client_id, error)

    def _received_queues(self, topic: str) -> list[RouteQueue]:
        return [queue for queue in self._receiving if queue.topic == topic]

    # Receiving.

    async def _receive_forever(self, queue: RouteQueue) -> None:
        """Poll one queue for ever.

        The attempt id changes only when messages have arrived: for the same one, an ordered group returns at once the
        messages of a poll that broke.
        """
        assert self._consumption is not None
        attempt_id = _new_attempt_id()
        while True:
            await self._consumption.wait_room()
            try:
                views = await self._receive_batch(queue, attempt_id)
            except ClientError as error:
                logger.log(log_level_of(error), "%s: receive: %s", self.client_id, error)
                throttled = isinstance(error, TooManyRequests)
                await asyncio.sleep(THROTTLED_PAUSE_S if throttled else self._timing.error_pause_s)
            except Exception:
                logger.exception("%s: receive failed", self.client_id)
                await asyncio.sleep(self._timing.error_pause_s)
            else:
                if views:
                    attempt_id = _new_attempt_id()
                    self._accept_messages(views)

    def _accept_messages(self, views: list[MessageView]) -> None:
        assert self._consumption is not None
        self._hooks.delivered(self.client_id, self.group, views)
        self._consumption.accept_messages(views, self._lane_of)

    def _accept_unwanted(self, views: list[MessageView]) -> None:
        """Handle messages of a poll whose queue was reassigned, or that had to end: they are with this client all the
        same."""
        assert self._consumption is not None
        if self._consumption.stopped:
            self._giving_back.begin_return(views)
        else:
            self._accept_messages(views)

    async def _receive_batch(self, queue: RouteQueue, attempt_id: str) -> list[MessageView]:
        assert self._consumption is not None
        share = self._prefetch_max // max(1, len(self._receiving))
        batch_size = max(1, min(self._batch_size, share, self._consumption.free_messages))
        terms = PollTerms(topic=queue.topic, max_messages=batch_size)
        return await self._polls.wait_outcome(
            self._polls.begin_poll(terms, self._call_receive(queue, attempt_id, batch_size))
        )

    async def _call_receive(self, queue: RouteQueue, attempt_id: str, batch_size: int) -> list[MessageView]:
        request = rpc.ReceiveMessageRequest(
            group=pb.Resource(name=self.group),
            message_queue=queue.proto,
            filter_expression=self._filters[queue.topic].to_proto(),
            batch_size=batch_size,
            auto_renew=True,
            long_polling_timeout=to_duration(self._poll_s),
            attempt_id=attempt_id,
        )
        timeout_s = self._poll_s + self._request_timeout_s
        connection = self._connection_to(queue.endpoints)
        with self._isolated.watch_call(queue.endpoints):
            return await receive_messages(
                connection, request, queue, MessageView, timeout_s=timeout_s, keep_partial=not self._fifo
            )

    def _lane_of(self, view: MessageView) -> Hashable | None:
        """Return the lane: ordered groups keep the order of a message group, and of a queue for messages without
        one."""
        if not self._fifo:
            return None
        if view.message_group is not None:
            return view.topic, view.message_group
        return view.topic, view.broker, view.queue_id

    # Consuming.

    async def _consume_message(self, view: MessageView) -> float | None:
        """Run the listener and settle; return the seconds to wait if an ordered message has to be tried again here."""
        assert self._listener_calls is not None
        assert self._consumption is not None
        intact = view.intact
        if not intact:
            logger.error(
                "%r is corrupted: its digest or its compression is wrong, or it is too long when it is unpacked", view
            )
        consumed = await self._listener_calls.call_listener(view) if intact else ConsumeOutcome(ConsumeResult.FAILURE)
        delay_s = consumed.retry_after_s
        if delay_s is None:
            delay_s = self._backoff.delay_s(view.delivery_attempt)
        if consumed.suspend_s is not None:
            await self._suspend_lane(view, consumed.suspend_s)
        elif consumed.result is ConsumeResult.SUCCESS:
            self._acker.add_ack(view)
        elif not self._fifo:
            await self._settle_repeatedly(lambda: self._change_invisible_duration(view, delay_s))
        elif intact and view.delivery_attempt < self._max_attempts:
            view.delivery_attempt += 1
            lane = self._lane_of(view)
            if self._consumption.can_retry(lane):
                return delay_s
            await self._settle_repeatedly(lambda: self._change_invisible_duration(view, delay_s))
            await self._giving_back.return_all(self._consumption.abandon_lane(lane))
        else:
            await self._settle_repeatedly(lambda: self._forward_to_dead_letter_queue(view))
        return None

    async def _suspend_lane(self, view: MessageView, seconds: float) -> None:
        """Give back the messages of the lane, of which `view` is the first; they are delivered again in that order."""
        assert self._consumption is not None
        followers = self._consumption.abandon_lane(self._lane_of(view))
        for each in (view, *(follower for follower, _ in followers)):
            await self._settle_repeatedly(partial(self._change_invisible_duration, each, seconds, suspend=True))

    async def _settle_repeatedly(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Repeat a settling call until it succeeds or is refused for good."""
        while True:
            try:
                return await settle()
            except ClientError as error:
                if not error.retryable:
                    logger.warning("%s: a delivery was not settled and may come again: %s", self.client_id, error)
                    return None
                logger.log(log_level_of(error), "%s: settling is tried again: %s", self.client_id, error)
            await asyncio.sleep(self._timing.error_pause_s)

    async def _forward_to_dead_letter_queue(self, view: MessageView) -> None:
        request = rpc.ForwardMessageToDeadLetterQueueRequest(
            group=pb.Resource(name=self.group),
            topic=pb.Resource(name=view.topic),
            receipt_handle=view.receipt_handle,
            message_id=view.message_id,
            delivery_attempt=view.delivery_attempt,
            max_delivery_attempts=self._max_attempts,
            lite_topic=view.lite_topic,
        )
        response = await self._call_endpoint(view.endpoints, calls.FORWARD_TO_DEAD_LETTER_QUEUE, request)
        check_status(response.status)


def _new_attempt_id() -> str:
    return os.urandom(16).hex()
