"""Calls callbacks one after the other, so that an error of one does not stop the others; and waits for one."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from ternmq_common.shard.model import AppendedMessage, Placed, Stored, TransactionEnded

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
    begin(lambda first, error: _set_outcome(stored, first, error))
    return await stored


async def wait_until_placed(begin: "Callable[[Placed], None]") -> "AppendedMessage":
    """Begin to store a message, and wait until it is; returns where. Raises the error for which it is not stored."""
    placed: asyncio.Future[AppendedMessage] = asyncio.get_running_loop().create_future()
    begin(lambda place, error: _set_outcome(placed, place, error))
    return await placed


async def wait_until_ended(begin: "Callable[[TransactionEnded], None]") -> None:
    """Begin to end a transaction, and wait until that may be acknowledged. Raises the error for which it may not."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    begin(lambda error: _set_outcome(ended, None, error))
    await ended


def _set_outcome(future: "asyncio.Future[Any]", result: object, error: Exception | None) -> None:
    if future.done():
        return  # the caller is gone
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
