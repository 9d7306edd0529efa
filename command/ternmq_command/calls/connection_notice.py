"""Reports once when a command that follows something loses its connection, and once when it is connected again."""

import asyncio

from ternmq.times.backoff import RECONNECT_BACKOFF
from ternmq_command.terminal.printing import echo


class ConnectionNotice:
    """The state of the connection to one endpoint, connected at first; `failures` counts all failures."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self.is_lost = False
        self.failures = 0

    def report_failure(self, why: str) -> None:
        """Count a failure, and report the first one since the connection was well."""
        self.failures += 1
        if not self.is_lost:
            self.is_lost = True
            echo(f"ternmq: lost the connection to {self._endpoint} ({why}); trying again", err=True)

    def report_success(self, failures: int) -> None:
        """Report that the connection is back, by the success of a call that began when `failures` was this number.

        A success does not count if other calls have failed since: a server that is ending still answers some.
        """
        if self.is_lost and failures == self.failures:
            self.is_lost = False
            echo(f"ternmq: connected to {self._endpoint} again", err=True)


async def wait_before_retry(failures: int) -> None:
    """Wait for the backoff after so many failures in a row."""
    await asyncio.sleep(RECONNECT_BACKOFF.delay_s(failures))
