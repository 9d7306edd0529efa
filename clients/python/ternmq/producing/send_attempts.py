"""Sends one SendMessage request, and repeats it until its messages are stored, refused for good, or given up.

Queues      each attempt goes to another queue, of another broker first; messages of a message group or a lite topic
            stay on their one queue. Stored messages are not sent again; ids and delivery times stay the same
Order       gRPC keeps it on a connection only: what waits for one is sent in any order. So of a message group one send
            at a time is in flight until there is a connection (`group_order`)
Time        a send has `delivery_timeout` for everything: no attempt lasts longer, and no pause exceeds it
Attempts    a failure that a server answered is repeated up to `max_attempts` times. A server that can't be reached
            counts for none, since it mostly is back in time. But whether it stored what it did not answer is unknown:
            so half messages, of which a second one would be committed too, have `max_attempts` in all, and with
            `max_attempts=1` nothing is sent twice
"""

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from ternmq.connections.connection import SEND_MESSAGE, CallEndpoint
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.route import RouteQueue, TopicRoute, choose_queues, queue_of_group
from ternmq.connections.send_request import encode_request
from ternmq.errors import ClientError, DeadlineExceeded, TooManyRequests, is_away
from ternmq.hooks import Sending
from ternmq.messages.message import Message
from ternmq.producing.group_order import SendTurn
from ternmq.producing.send_batches import Outcome, read_outcomes, repeatable_indexes
from ternmq.times.backoff import REACH_BACKOFF, SEND_BACKOFF, Backoff
from ternmq_common.pacing.backoff import add_jitter
from ternmq_common.retry_hint import parse_retry_hint

SHORTEST_ATTEMPT_S = 0.001


class SendBudget:
    """The time that one send has left, from its call on."""

    def __init__(self, seconds: float) -> None:
        self._clock = asyncio.get_running_loop().time
        self._end_s = self._clock() + seconds

    @property
    def left_s(self) -> float:
        return self._end_s - self._clock()

    async def try_pause(self, delay_s: float) -> bool:
        """Pause for between half and all of `delay_s`; return False at once if there is no time for it."""
        # Not a secret: it only spreads the repetitions of many producers.
        pause_s = add_jitter(delay_s, random.random())  # noqa: S311
        if pause_s >= self.left_s:
            return False
        await asyncio.sleep(pause_s)
        return True


class SendAttempts:
    """The send attempts of one producer; `backoff` is what the server sent last."""

    def __init__(
        self,
        call: CallEndpoint,
        *,
        is_connected: Callable[[Endpoints], bool],
        isolated: Collection[Endpoints],
        max_attempts: int,
        request_timeout_s: float,
        compress_from_bytes: int | None,
    ) -> None:
        self.backoff: Backoff = SEND_BACKOFF
        self._call = call
        self._is_connected = is_connected
        self._isolated = isolated
        self._max_attempts = max_attempts
        self._request_timeout_s = request_timeout_s
        self._compress_from_bytes = compress_from_bytes
        self._turn = itertools.count(random.randrange(1024))  # noqa: S311 - spreads producers over the queues

    async def send_messages(
        self, sending: Sending, route: TopicRoute, budget: SendBudget, turn: SendTurn
    ) -> list[Outcome]:
        """Send the messages; return one outcome for each."""
        outcomes: list[Outcome] = []
        places = list(range(len(sending.messages)))
        answers = 0
        for attempt, queue in enumerate(self._attempt_queues(route, sending.messages[0]), start=1):
            if not await self._wait_turn(turn, queue, budget):
                return outcomes or [_late_error(queue)] * len(places)
            part = sending if attempt == 1 else _select_messages(sending, places)
            sending.endpoints = queue.endpoints
            answered = await self._send_once(part, queue, budget)
            if attempt == 1:
                outcomes = answered
            for place, outcome in zip(places, answered, strict=True):
                outcomes[place] = outcome
            places = [places[index] for index in repeatable_indexes(answered, part.messages)]
            away = all(is_away(outcomes[place]) for place in places)
            answers += not away or sending.transactional or self._max_attempts == 1
            if not places or answers == self._max_attempts:
                break
            turn.mark_repeating()
            backoff = REACH_BACKOFF if away else self.backoff
            if not await budget.try_pause(max(backoff.delay_s(attempt + 1), _requested_pause_s(outcomes, places))):
                break
        return outcomes

    async def _wait_turn(self, turn: SendTurn, queue: RouteQueue, budget: SendBudget) -> bool:
        """Wait until an attempt may begin; return False if that takes too long."""
        while await turn.wait_turn(timeout_s=budget.left_s):
            if not turn.is_ordered or turn.is_repeated or self._is_connected(queue.endpoints):
                return True
            turn.mark_repeating()
        return False

    async def _send_once(self, sending: Sending, queue: RouteQueue, budget: SendBudget) -> list[Outcome]:
        request = encode_request(
            sending,
            queue_id=queue.queue_id,
            born_ns=time.time_ns(),
            compress_from_bytes=self._compress_from_bytes,
        )
        # The first attempt of a send that had to wait for its turn may have no time left; it must end all the same.
        timeout_s = max(SHORTEST_ATTEMPT_S, min(self._request_timeout_s, budget.left_s))
        try:
            response = await self._call(queue.endpoints, SEND_MESSAGE, request, timeout_s=timeout_s)
        except ClientError as error:
            return [error] * len(sending.messages)
        return read_outcomes(sending.topic, sending.message_ids, response)

    def _attempt_queues(self, route: TopicRoute, first: Message) -> Iterator[RouteQueue]:
        """Yield the queue of each attempt, for ever; endpoints that failed come last in the next round."""
        queues = route.require_writable()
        if first.order_key is not None:
            yield from itertools.repeat(queue_of_group(queues, first.order_key))
        while True:
            turn = next(self._turn)
            yield from choose_queues(queues, turn=turn, isolated=self._isolated, count=self._max_attempts)


def _requested_pause_s(outcomes: list[Outcome], places: list[int]) -> float:
    """Return how long a server requested to wait, doubled, since a pause may be half as long as requested."""
    refusals = [outcome for place in places if isinstance(outcome := outcomes[place], TooManyRequests)]
    return max((2 * parse_retry_hint(str(refusal)) for refusal in refusals), default=0.0)


def _late_error(queue: RouteQueue) -> DeadlineExceeded:
    return DeadlineExceeded(
        str(queue.endpoints), "an earlier message of its message group or lite topic was repeated all the time"
    )


def _select_messages(sending: Sending, places: list[int]) -> Sending:
    return replace(
        sending,
        messages=[sending.messages[place] for place in places],
        message_ids=[sending.message_ids[place] for place in places],
    )
