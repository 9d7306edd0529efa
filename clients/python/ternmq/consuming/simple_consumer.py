"""The simple consumer: the user receives messages and settles each delivery.

A receive that is cancelled leaves its call at the server to the next one (`ternmq.consuming.receive_polls`);
messages that arrive meanwhile are given back, to be delivered at once, without counting as an attempt. `close`
waits for that, for some seconds at most. Acknowledgements are repeated after failures of the network, since a
second one changes nothing; changes of the invisible duration aren't, since each creates a new receipt handle.
"""

import asyncio
import itertools
import logging
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Unpack

from ternmq.client import ClientLife
from ternmq.connections.route import RouteQueue
from ternmq.consuming.ack_requests import ACK_ENTRIES_MAX, AckKey, RefusedAck, group_by_request
from ternmq.consuming.consumer import Consumer
from ternmq.consuming.message_returns import MessageReturns
from ternmq.consuming.receive_call import receive_messages
from ternmq.consuming.receive_polls import PollTerms, ReceivePolls
from ternmq.consuming.received_message import ReceivedMessage
from ternmq.errors import AckError, ClientError
from ternmq.messages.filters import Subscriptions
from ternmq.messages.message_view import MessageView
from ternmq.options import ClientOptions
from ternmq.times.backoff import SEND_BACKOFF
from ternmq.times.durations import check_span
from ternmq.times.wire_time import to_duration
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)

DEFAULT_AWAIT = timedelta(seconds=15)
DEFAULT_INVISIBLE = timedelta(seconds=30)
ACK_ATTEMPTS = 3
# Apache RocketMQ polls for at least this long and refuses calls whose deadline is nearer.
SHORTEST_POLL_S = 5.0


class SimpleConsumer(Consumer):
    """Receives messages on request.

        async with SimpleConsumer("127.0.0.1:8081", group="billing", subscriptions={"orders": "paid"}) as consumer:
            for view in await consumer.receive(max_messages=16):
                ...
                await view.ack()

    `subscriptions` is topic to filter: a tag expression such as `"*"` or `"a || b"`, or an `SqlFilter`. With several
    topics each `receive` queries the next one. `await_duration` is how long the server waits for a first
    message. The other arguments are those of `ternmq.options.ClientOptions`.
    """

    client_type = pb.SIMPLE_CONSUMER

    def __init__(
        self,
        endpoint: str,
        group: str,
        subscriptions: Subscriptions,
        *,
        await_duration: timedelta = DEFAULT_AWAIT,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            endpoint,
            group,
            subscriptions,
            **options,
        )
        self._await_s = check_span("await_duration", await_duration).total_seconds()
        self._topic_turn = itertools.cycle(self._filters)
        self._make_view = partial(ReceivedMessage, consumer=self)
        self._giving_back = MessageReturns(
            lambda: self.client_id,
            self._change_invisible_duration,
            timeout_s=ACK_ATTEMPTS * (self._request_timeout_s + 1.0),
        )
        self.unclaimed = self._giving_back.begin_return
        """Gives back messages that the application has not seen; for `ternmq.blocking`."""
        self._polls: ReceivePolls[ReceivedMessage] = ReceivePolls(self.unclaimed)
        self._settling = 0
        self._settled = asyncio.Event()
        self._settled.set()

    async def receive(
        self, max_messages: int = 32, invisible_duration: timedelta = DEFAULT_INVISIBLE
    ) -> list[ReceivedMessage]:
        """Return up to `max_messages`, hidden from others for `invisible_duration`; `[]` if none arrived in time.

        It may be cancelled, as `asyncio.wait_for` does: messages that arrive then go to the next `receive`, or
        back at once.
        """
        self._check_running()
        invisible_s = check_span("invisible_duration", invisible_duration).total_seconds()
        terms = PollTerms(topic=next(self._topic_turn), max_messages=max_messages, invisible_s=invisible_s)
        ends_s = asyncio.get_running_loop().time() + self._await_s
        poll = self._polls.take_over(terms)
        views = (
            [] if poll is None else await self._fit_messages(await self._polls.wait_outcome(poll), poll.terms, terms)
        )
        await_s = self._await_s if poll is None else ends_s - asyncio.get_running_loop().time()
        if not views and await_s >= min(self._await_s, SHORTEST_POLL_S):
            queue = await self._readable_queue(terms.topic)
            views = await self._polls.wait_outcome(
                self._polls.begin_poll(terms, self._call_receive(terms, queue, await_s))
            )
        if self._life is not ClientLife.RUNNING:
            self.unclaimed(views)
            self._check_running()
        if views:
            self._hooks.delivered(self.client_id, self.group, views)
        return views

    async def ack(self, views: MessageView | Iterable[MessageView]) -> None:
        """Acknowledge deliveries; `AckError` has those that the server refused."""
        self._check_running()
        views = [views] if isinstance(views, MessageView) else list(views)
        self._settling += 1
        self._settled.clear()
        try:
            parts = await asyncio.gather(*(self._ack_all(key, part) for key, part in group_by_request(views).items()))
        finally:
            self._settling -= 1
            if not self._settling:
                self._settled.set()
        refused = [entry for part in parts for entry in part]
        if refused:
            raise AckError(refused)

    async def change_invisible_duration(self, view: MessageView, invisible_duration: timedelta) -> None:
        """Keep a message hidden for longer, or show it again sooner: 0 gives it back at once."""
        self._check_running()
        await self._change_invisible_duration(
            view, check_span("invisible_duration", invisible_duration).total_seconds()
        )

    def _create_settings(self) -> pb.Settings:
        settings = super()._create_settings()
        settings.subscription.long_polling_timeout.CopyFrom(to_duration(self._await_s))
        return settings

    async def _call_receive(self, terms: PollTerms, queue: RouteQueue, await_s: float) -> list[ReceivedMessage]:
        request = rpc.ReceiveMessageRequest(
            group=pb.Resource(name=self.group),
            message_queue=queue.proto,
            filter_expression=self._filters[terms.topic].to_proto(),
            batch_size=terms.max_messages,
            invisible_duration=to_duration(terms.invisible_s),
            auto_renew=False,
            long_polling_timeout=to_duration(await_s),
        )
        timeout_s = max(await_s, SHORTEST_POLL_S) + self._request_timeout_s
        with self._isolated.watch_call(queue.endpoints):
            connection = self._connection_to(queue.endpoints)
            return await receive_messages(connection, request, queue, self._make_view, timeout_s=timeout_s)

    async def _fit_messages(
        self, views: list[ReceivedMessage], had: PollTerms, wanted: PollTerms
    ) -> list[ReceivedMessage]:
        """Fit the messages of a call that was taken over to the terms of the new caller."""
        views, surplus = views[: wanted.max_messages], views[wanted.max_messages :]
        self.unclaimed(surplus)
        if had.invisible_s != wanted.invisible_s:
            try:
                changed = await asyncio.gather(
                    *(self._change_invisible_duration(view, wanted.invisible_s) for view in views),
                    return_exceptions=True,
                )
            except asyncio.CancelledError:
                self.unclaimed(views)
                raise
            for error in changed:
                if error is not None:
                    logger.warning("%s: a message stays hidden for %g s: %s", self.client_id, had.invisible_s, error)
        return views

    async def _finish_work(self) -> None:
        await self._end_polls(self._polls)
        try:
            async with asyncio.timeout(ACK_ATTEMPTS * (self._request_timeout_s + 1.0)):
                await self._settled.wait()
                await self._giving_back.wait_returns()
        except TimeoutError:
            pass  # these acks fail with NotRunning when the connections close

    async def _ack_all(self, key: AckKey, views: list[MessageView]) -> list[RefusedAck]:
        refused: list[RefusedAck] = []
        for start in range(0, len(views), ACK_ENTRIES_MAX):
            refused += await self._ack_repeatedly(key, views[start : start + ACK_ENTRIES_MAX])
        return refused

    async def _ack_repeatedly(self, key: AckKey, views: list[MessageView]) -> list[RefusedAck]:
        for attempt in itertools.count(1):
            try:
                return await self._ack_once(key.endpoints, key.topic, views)
            except ClientError as error:
                if attempt == ACK_ATTEMPTS or not error.retryable:
                    return [(view, error) for view in views]
            await asyncio.sleep(SEND_BACKOFF.delay_s(attempt + 1))
        raise AssertionError("the loop above has no end")
