"""One SendMessage request, repeated until all its messages are stored or refused for good, or its attempts are used up.

Each attempt goes to another queue, of another broker first, and those of a message group to the group's one queue. What
was stored isn't sent again; ids and delivery times stay as they are.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Collection
from dataclasses import replace

from ternmq.backoff import SEND_BACKOFF, Backoff, jittered
from ternmq.connection import SEND_MESSAGE, Call
from ternmq.endpoints import Endpoints
from ternmq.errors import ClientError
from ternmq.hooks import Sending
from ternmq.message import Message
from ternmq.outgoing import Outcome, build_request, outcomes_of, repeatable, set_queue
from ternmq.route import Queue, Route, queue_of_group, queues_to_try


class Attempts:
    """How one producer sends; `backoff` is what the server told last."""

    def __init__(
        self, call: Call, *, isolated: Collection[Endpoints], max_attempts: int, compress_from_bytes: int | None
    ) -> None:
        self.backoff: Backoff = SEND_BACKOFF
        self._call = call
        self._isolated = isolated
        self._max_attempts = max_attempts
        self._compress_from_bytes = compress_from_bytes
        self._turn = itertools.count(random.randrange(1024))  # noqa: S311 - spreads producers over the queues

    async def send(self, sending: Sending, route: Route) -> list[Outcome]:
        """One outcome for each message."""
        outcomes: list[Outcome] = []
        places = list(range(len(sending.messages)))
        for attempt, queue in enumerate(self._queues(route, sending.messages[0]), start=1):
            part = sending if attempt == 1 else _part(sending, places)
            sending.endpoints = queue.endpoints
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
            response = await self._call(queue.endpoints, SEND_MESSAGE, request)
        except ClientError as error:
            return [error] * len(sending.messages)
        return outcomes_of(sending.topic, sending.message_ids, response)

    def _queues(self, route: Route, first: Message) -> list[Queue]:
        queues = route.checked_writable()
        if first.message_group is not None:
            return [queue_of_group(queues, first.message_group)] * self._max_attempts
        return queues_to_try(queues, turn=next(self._turn), isolated=self._isolated, count=self._max_attempts)

    async def _pause(self, attempt: int) -> None:
        # Not for secrets: it only spreads the repetitions of many producers.
        await asyncio.sleep(jittered(self.backoff.delay_s(attempt + 1), random.random()))  # noqa: S311


def _part(sending: Sending, places: list[int]) -> Sending:
    return replace(
        sending,
        messages=[sending.messages[place] for place in places],
        message_ids=[sending.message_ids[place] for place in places],
    )
