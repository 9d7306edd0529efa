"""What becomes of calls under way when their user may no more: they are cancelled, and say why."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_proxy.access.control import REVOKED

if TYPE_CHECKING:
    from ternmq_proxy.access.control import RightsWatch
    from ternmq_rpc.grpc_stream.served_call import ServedCall


class RevokedPoll:
    """The answer to a poll that was allowed no more, which took nothing."""

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames
        self.code: int = REVOKED.code

    async def return_undelivered(self) -> None:
        """There is nothing to give back."""


def cancel(served: "ServedCall") -> None:
    """End what waits in it."""
    if served.task is not None:
        served.task.cancel()


def was_revoked(watch: "RightsWatch") -> bool:
    """Whether that is why the call was cancelled; it goes on then, to say so."""
    task = asyncio.current_task()
    if watch.is_revoked and task is not None:
        task.uncancel()
    return watch.is_revoked
