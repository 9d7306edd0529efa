"""Calls callbacks one after the other, so that an error of one does not stop the others; and waits for one."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec

if TYPE_CHECKING:
    from ternmq_common.shard.model import Stored

P = ParamSpec("P")


def call_back(callback: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> None:
    """Call the callback; an error goes to the loop's exception handler, which logs it."""
    try:
        callback(*arguments, **named)
    except Exception as error:  # noqa: BLE001 - the outermost of this callback
        context = {"message": "a callback failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


async def wait_until_stored(begin: "Callable[[Stored], None]") -> int:
    """Begin to store messages, and wait until they are; returns the queue offset of the first.

    Raises the error for which they are not stored.
    """
    stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def done(first: int, error: Exception | None) -> None:
        if stored.done():
            return  # the caller is gone
        if error is None:
            stored.set_result(first)
        else:
            stored.set_exception(error)

    begin(done)
    return await stored
