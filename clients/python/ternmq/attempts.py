"""Sends one SendMessage request, and repeats it until its messages are stored, refused for good, or given up.

Queues      each attempt goes to another queue, of another broker first; messages of a message group or a lite topic
            stay on their one queue. What was stored isn't sent again; ids and delivery times stay the same
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
from collections.abc import Collection, Iterator
from dataclasses import replace

from ternmq.backoff import REACH_BACKOFF, SEND_BACKOFF, Backoff, jittered
from ternmq.connection import SEND_MESSAGE, Call
from ternmq.endpoints import Endpoints
from ternmq.errors import ClientError, DeadlineExceeded, TooManyRequests, is_away
from ternmq.group_order import Turn
from ternmq.hooks import Sending
from ternmq.message import Message
from ternmq.outgoing import Outcome, outcomes_of, repeatable
from ternmq.route import Queue, Route, queue_of_group, queues_to_try
from ternmq.send_request import send_request
from ternmq_common.retry_hint import hinted_s

SHORTEST_ATTEMPT_S = 0.001


class Budget:
    """The time that one send has left, from its call on."""

    def __init__(self, seconds: float) -> None:
        self._clock = asyncio.get_running_loop().time
        self._end_s = self._clock() + seconds

    @property
    def left_s(self) -> float:
        return self._end_s - self._clock()

    async def pause(self, delay_s: float) -> bool:
        """Pause for between half and all of `delay_s`; return False at once if there is no time for it."""
        # Not a secret: it only spreads the repetitions of many producers.
        pause_s = jittered(delay_s, random.random())  # noqa: S311
        if pause_s >= self.left_s:
            return False
        await asyncio.sleep(pause_s)
        return True


class Attempts:
    """The send attempts of one producer; `backoff` is what the server sent last."""

    def __init__(
        self,
        call: Call,
        *,
        isolated: Collection[Endpoints],
        max_attempts: int,
        request_timeout_s: float,
        compress_from_bytes: int | None,
    ) -> None:
        self.backoff: Backoff = SEND_BACKOFF
        self._call = call
        self._isolated = isolated
        self._max_attempts = max_attempts
        self._request_timeout_s = request_timeout_s
        self._compress_from_bytes = compress_from_bytes
        self._turn = itertools.count(random.randrange(1024))  # noqa: S311 - spreads producers over the queues

    async def send(self, sending: Sending, route: Route, budget: Budget, turn: Turn) -> list[Outcome]:
        """Send the messages; return one outcome for each."""
        outcomes: list[Outcome] = []
        places = list(range(len(sending.messages)))
        answers = 0
        for attempt, queue in enumerate(self._queues(route, sending.messages[0]), start=1):
            if not await turn.comes(timeout_s=budget.left_s):
                return outcomes or [_late(queue)] * len(places)
            part = sending if attempt == 1 else _part(sending, places)
            sending.endpoints = queue.endpoints
            answered = await self._send_once(part, queue, budget)
            if attempt == 1:
                outcomes = answered
            for place, outcome in zip(places, answered, strict=True):
                outcomes[place] = outcome
            places = [places[index] for index in repeatable(answered, part.messages)]
            away = all(is_away(outcomes[place]) for place in places)
            answers += not away or sending.transactional or self._max_attempts == 1
            if not places or answers == self._max_attempts:
                break
            turn.repeats()
            backoff = REACH_BACKOFF if away else self.backoff
            if not await budget.pause(max(backoff.delay_s(attempt + 1), _asked_s(outcomes, places))):
                break
        return outcomes

    async def _send_once(self, sending: Sending, queue: Queue, budget: Budget) -> list[Outcome]:
        request = send_request(
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
        return outcomes_of(sending.topic, sending.message_ids, response)

    def _queues(self, route: Route, first: Message) -> Iterator[Queue]:
        """Yield the queue of each attempt, for ever; endpoints that failed come last in the next round."""
        queues = route.checked_writable()
        if first.order_key is not None:
            yield from itertools.repeat(queue_of_group(queues, first.order_key))
        while True:
            turn = next(self._turn)
            yield from queues_to_try(queues, turn=turn, isolated=self._isolated, count=self._max_attempts)


def _asked_s(outcomes: list[Outcome], places: list[int]) -> float:
    """Return how long a server asked to wait, doubled, since a pause may be half as long as requested."""
    refusals = [outcome for place in places if isinstance(outcome := outcomes[place], TooManyRequests)]
    return max((2 * hinted_s(str(refusal)) for refusal in refusals), default=0.0)


def _late(queue: Queue) -> DeadlineExceeded:
    return DeadlineExceeded(
        str(queue.endpoints), "an earlier message of its message group or lite topic was repeated all the time"
    )


def _part(sending: Sending, places: list[int]) -> Sending:
    return replace(
        sending,
        messages=[sending.messages[place] for place in places],
        message_ids=[sending.message_ids[place] for place in places],
    )
