"""The connection of a command that follows something: that it is lost, and back again, is told once each way."""

import asyncio

from ternmq.backoff import RECONNECT_BACKOFF
from ternmq_command.terminal.printing import echo


class Link:
    """To one endpoint; up at first. `failures` counts all that failed since the beginning."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self.is_lost = False
        self.failures = 0

    def lost(self, why: str) -> None:
        """Something failed."""
        self.failures += 1
        if not self.is_lost:
            self.is_lost = True
            echo(f"ternmq: lost the connection to {self._endpoint} ({why}); trying again", err=True)

    def back(self, failures: int) -> None:
        """Something succeeded that was begun after so many failures. If others have failed since, that says nothing: a
        server that ends answers what it can."""
        if self.is_lost and failures == self.failures:
            self.is_lost = False
            echo(f"ternmq: connected to {self._endpoint} again", err=True)


async def pause(failures: int) -> None:
    """Wait after so many failures in a row."""
    await asyncio.sleep(RECONNECT_BACKOFF.delay_s(failures))
