"""Runs coroutines that mostly need not wait: starts them at once, and creates a task only if they wait.

A task costs more than most calls do. Code that must be in one, such as `asyncio.timeout`, calls `ensure_task` first.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any, TypeVar, cast

T = TypeVar("T")


def start_eagerly(coroutine: Coroutine[Any, Any, T], *, name: str) -> "asyncio.Task[T] | None":
    """Run the coroutine until it waits; returns the task in which it goes on then, or None if it has ended.

    Raises what the coroutine raises before it waits.
    """
    context = copy_context()
    try:
        waits_for = context.run(coroutine.send, None)
    except StopIteration:
        return None
    rest = cast("Coroutine[Any, Any, T]", _StartedCoroutine(coroutine, waits_for))
    return asyncio.get_running_loop().create_task(rest, name=name, context=context)


async def ensure_task() -> None:
    """Go on in a task; call it where the coroutine waits anyway."""
    if asyncio.current_task() is None:
        await asyncio.sleep(0)


class _StartedCoroutine:
    """A coroutine that waits already, wrapped for a task: the first `send` returns what it waits for."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, object], waits_for: object) -> None:
        self._coroutine = coroutine
        self._waits_for: list[object] = [waits_for]

    def send(self, value: object) -> object:
        return self._waits_for.pop() if self._waits_for else self._coroutine.send(value)

    def throw(self, *error: Any) -> object:  # noqa: ANN401 - as a coroutine has it
        if self._waits_for:  # the task was cancelled before it could cancel that
            waits_for = self._waits_for.pop()
            if isinstance(waits_for, asyncio.Future):
                waits_for.cancel()
        try:
            return self._coroutine.throw(*error)
        finally:
            del error  # its traceback has this frame: a cycle, which keeps a cancelled call and its connection

    def close(self) -> None:
        self._coroutine.close()


# A task takes it for a coroutine; it is never awaited.
Coroutine.register(_StartedCoroutine)
