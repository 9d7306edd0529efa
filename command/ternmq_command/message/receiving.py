"""What `ternmq receive` does with messages: it prints and acknowledges them, and with --follow outlives its server.

The module imports the client library, so the subcommand imports it when it runs.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from ternmq import MessageView, SimpleConsumer
from ternmq.errors import AckError, ClientError, TransportError
from ternmq_command.calls.library import print_message
from ternmq_command.calls.link import Link, pause
from ternmq_command.terminal.printing import echo
from ternmq_command.terminal.template import Template

BATCH_MAX = 32
INVISIBLE_DURATION = timedelta(seconds=30)
AT_ONCE = timedelta(0)


class Receiving:
    """One call of the command, of which `limit` messages are wanted, None for all; `count` were printed.

    What was printed and could not be acknowledged, as the connection was lost, is so with the next batch.
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
        """Whether there are as many as wanted, and nothing is left to acknowledge."""
        return self._limit is not None and self.count >= self._limit and not self._printed

    async def batch(self, consumer: SimpleConsumer) -> int:
        """Print what one call brings, and acknowledge it; how many these were."""
        await self._acknowledge(consumer, is_late=True)
        batch_max = BATCH_MAX if self._limit is None else min(BATCH_MAX, self._limit - self.count)
        if not batch_max:
            return 0
        views = await consumer.receive(max_messages=batch_max, invisible_duration=INVISIBLE_DURATION)
        for view in views:
            print_message(view, as_json=self._as_json, raw=self._raw, template=self._template)
            self.count += 1
            if self._acknowledges:
                self._printed.append(view)
        await self._acknowledge(consumer, is_late=False)
        return len(views)

    async def _acknowledge(self, consumer: SimpleConsumer, *, is_late: bool) -> None:
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
            # They may be with others by now.
            echo(f"ternmq: {len(error.refused)} messages come again, acknowledged too late: {error}", err=True)


async def follow(
    endpoint: str, receiving: Receiving, consumer: Callable[[timedelta], SimpleConsumer], wait: timedelta
) -> None:
    """Go on until there is enough. `consumer` makes one that waits so long for messages; who is lost is followed by
    another. What fails before the first messages could be had is raised, and what does not pass."""
    link, failures, was_there = Link(endpoint), 0, False
    while not receiving.is_enough:
        try:
            with _quiet_library():
                # The first look after a loss does not wait: it is to turn out who is there.
                async with consumer(AT_ONCE if link.is_lost else wait) as running:
                    was_there = was_there or not link.is_lost
                    while not receiving.is_enough:
                        await receiving.batch(running)
                        failures = 0
                        if link.is_lost:
                            link.back(link.failures)
                            break
        except ClientError as error:
            if not was_there or not error.retryable:
                raise
            link.lost(_reason(error))
            failures += 1
            await pause(failures)


def _reason(error: ClientError) -> str:
    return error.message.removeprefix(f"{error.endpoint}: ") if isinstance(error, TransportError) else str(error)


@contextmanager
def _quiet_library() -> Iterator[None]:
    """What the library warns of while a server is away is told once, by `Link`."""
    logger = logging.getLogger("ternmq")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
