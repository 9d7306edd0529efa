"""Gives messages back to the server: others get them at once, in order, and the delivery does not count as an attempt.

Repeated    giving back twice does no harm: the second time the receipt handle is invalid
Bounds      a limited number of calls at a time, and a limited time. Messages that were not given back are delivered
            again after its invisible duration, or after the termination of a client whose messages the server keeps
            hidden
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from ternmq.errors import ClientError
from ternmq.messages.message_view import MessageView
from ternmq.times.backoff import SEND_BACKOFF
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_protos.v2 import definition_pb2 as pb

logger = logging.getLogger(__name__)

AT_A_TIME = 64
ATTEMPTS = 3


class ChangeInvisibleDuration(Protocol):
    """Changes for how many seconds a message is hidden, as a consumer does."""

    async def __call__(self, view: MessageView, seconds: float, *, suspend: bool) -> None: ...


class MessageReturns:
    """Returns the messages of one consumer; `timeout_s` is for one call of `return_all`, and for `wait_returns`."""

    def __init__(
        self, client_id: Callable[[], str], change_invisible: ChangeInvisibleDuration, *, timeout_s: float
    ) -> None:
        self._client_id = client_id
        self._change_invisible = change_invisible
        self._timeout_s = timeout_s
        self._room = asyncio.Semaphore(AT_A_TIME)
        self._tasks = BackgroundTasks(logger)

    def begin_return(self, views: Sequence[MessageView]) -> None:
        """Give messages back in the background, to be delivered at once."""
        if views:
            self._tasks.start(self.return_all([(view, 0.0) for view in views]))

    async def wait_returns(self) -> None:
        """Wait for the calls of `begin_return`, which are limited in time."""
        await self._tasks.wait_until_done()

    async def return_all(self, unstarted: Sequence[tuple[MessageView, float]]) -> None:
        """Give back messages that were not started, each with the seconds until its next delivery: above 0 if it
        failed."""
        failures: list[ClientError] = []
        given_back = 0

        async def give_back(view: MessageView, wait_s: float) -> None:
            nonlocal given_back
            async with self._room:
                try:
                    await self._return_one(view, wait_s)
                    given_back += 1
                except ClientError as error:
                    failures.append(error)

        try:
            async with asyncio.timeout(self._timeout_s):
                await asyncio.gather(*(give_back(view, wait_s) for view, wait_s in unstarted))
        except TimeoutError:
            pass  # counted below
        if given_back < len(unstarted):
            why = f"; the first failure: {failures[0]}" if failures else ""
            missing = len(unstarted) - given_back
            logger.warning("%s: %d messages could not be given back in time%s", self._client_id(), missing, why)

    async def _return_one(self, view: MessageView, wait_s: float) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._change_invisible(view, wait_s, suspend=not wait_s)
            except ClientError as error:
                if attempt > 1 and error.code == pb.INVALID_RECEIPT_HANDLE:
                    return None  # the answer to the first call was lost
                if attempt == ATTEMPTS or not error.retryable:
                    raise
            await asyncio.sleep(SEND_BACKOFF.delay_s(attempt))
        raise AssertionError("the loop above has no end")
