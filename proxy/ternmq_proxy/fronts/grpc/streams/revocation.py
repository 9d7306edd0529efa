"""Ends running calls whose user lost a right: they are cancelled, and answer why."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_proxy.access.control import REVOKED

if TYPE_CHECKING:
    from ternmq_proxy.access.control import RightsWatch
    from ternmq_rpc.grpc_stream.served_call import ServedCall


class RevokedPoll:
    """The answer to a poll that was revoked, which claimed nothing."""

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames
        self.code: int = REVOKED.code

    async def return_undelivered(self) -> None:
        """Do nothing, since nothing was claimed."""


def cancel(served: "ServedCall") -> None:
    """Cancel the task of a served call."""
    if served.task is not None:
        served.task.cancel()


def was_revoked(watch: "RightsWatch") -> bool:
    """Return whether the call was cancelled by revocation; if so, the task goes on, to answer why."""
    task = asyncio.current_task()
    if watch.is_revoked and task is not None:
        task.uncancel()
    return watch.is_revoked
