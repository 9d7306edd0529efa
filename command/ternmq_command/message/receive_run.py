"""Receives, prints and acknowledges messages for `ternmq receive`; with --follow it survives restarts of the server.

The module imports the client library, so the subcommand imports it when it runs.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from ternmq import MessageView, SimpleConsumer
from ternmq.errors import AckError, ClientError, TransportError
from ternmq_command.calls.connection_notice import ConnectionNotice, wait_before_retry
from ternmq_command.calls.library import print_message
from ternmq_command.terminal.printing import echo
from ternmq_command.terminal.template import Template

BATCH_MAX = 32
INVISIBLE_DURATION = timedelta(seconds=30)
AT_ONCE = timedelta(0)


class ReceiveRun:
    """One call of the command, which prints up to `limit` messages, None for no limit; `count` were printed so far.

    Messages that were printed but not acknowledged, since the connection was lost, are acknowledged before the next
    batch.
    """

    def __init__(
        self,
        limit: int | None,
        *,
        acknowledges: bool,
        as_json: bool,
        raw: bool,
        template: Template | None = None,
    ) -> None:
        self._limit = limit
        self._acknowledges = acknowledges
        self._as_json, self._raw, self._template = as_json, raw, template
        self._printed: list[MessageView] = []
        self.count = 0

    @property
    def is_enough(self) -> bool:
        """Whether the limit is reached, and nothing is left to acknowledge."""
        return self._limit is not None and self.count >= self._limit and not self._printed

    async def receive_batch(self, consumer: SimpleConsumer) -> int:
        """Receive once, print the messages and acknowledge them; return their number."""
        await self._acknowledge_printed(consumer, is_late=True)
        batch_max = BATCH_MAX if self._limit is None else min(BATCH_MAX, self._limit - self.count)
        if not batch_max:
            return 0
        views = await consumer.receive(max_messages=batch_max, invisible_duration=INVISIBLE_DURATION)
        for view in views:
            print_message(view, as_json=self._as_json, raw=self._raw, template=self._template)
            self.count += 1
            if self._acknowledges:
                self._printed.append(view)
        await self._acknowledge_printed(consumer, is_late=False)
        return len(views)

    async def _acknowledge_printed(self, consumer: SimpleConsumer, *, is_late: bool) -> None:
        views, self._printed = self._printed, []
        if not views:
            return
        try:
            await consumer.ack(views)
        except AckError as error:
            self._printed = [view for view, why in error.refused if why.retryable]
            if self._printed:
                raise next(why for _, why in error.refused if why.retryable) from error
            if not is_late:
                raise
            # Other members may have them by now.
            echo(
                f"ternmq: {len(error.refused)} messages acknowledged too late are delivered again: {error}",
                err=True,
            )


async def follow_messages(
    endpoint: str, receiving: ReceiveRun, consumer: Callable[[timedelta], SimpleConsumer], wait: timedelta
) -> None:
    """Receive until the limit is reached, with a new consumer after each loss of the connection.

    `consumer` creates a consumer with that long poll. Errors before the first connection, and permanent ones, are
    raised.
    """
    link, failures, was_there = ConnectionNotice(endpoint), 0, False
    while not receiving.is_enough:
        try:
            with _quiet_library():
                # The first receive after a loss does not wait, to find out soon whether the server is back.
                async with consumer(AT_ONCE if link.is_lost else wait) as running:
                    was_there = was_there or not link.is_lost
                    while not receiving.is_enough:
                        await receiving.receive_batch(running)
                        failures = 0
                        if link.is_lost:
                            link.report_success(link.failures)
                            break
        except ClientError as error:
            if not was_there or not error.retryable:
                raise
            link.report_failure(_failure_reason(error))
            failures += 1
            await wait_before_retry(failures)


def _failure_reason(error: ClientError) -> str:
    return error.message.removeprefix(f"{error.endpoint}: ") if isinstance(error, TransportError) else str(error)


@contextmanager
def _quiet_library() -> Iterator[None]:
    """Suppress the library's warnings while a server is away; `ConnectionNotice` reports it once."""
    logger = logging.getLogger("ternmq")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
