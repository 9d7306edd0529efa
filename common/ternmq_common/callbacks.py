"""Callbacks of many, one after the other: what one of them raises holds up no other."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


def tell(callback: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> None:
    """Call it; an error goes to the loop's exception handler, which logs it."""
    try:
        callback(*arguments, **named)
    except Exception as error:  # noqa: BLE001 - the outermost of this callback
        context = {"message": "a callback failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
