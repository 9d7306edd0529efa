"""Transactions of a relay on an engine of either kind: what is done in them are plain functions of a connection."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncEngine

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
# Where relays are tested to share rows by SKIP LOCKED.
_SKIP_LOCKED = frozenset({"postgresql"})


class Run(Protocol):
    """Runs a function with the connection of the transaction."""

    def __call__(self, function: Callable[[Connection], ResultT], /) -> Awaitable[ResultT]: ...


class Database(Protocol):
    """What a relay needs of an engine."""

    can_skip_locked: bool

    def transaction(self) -> AbstractAsyncContextManager[Run]:
        """A transaction of functions that are run one after the other; committed when the block is left without an
        error."""

    async def once(self, function: Callable[[Connection], ResultT]) -> ResultT:
        """A transaction of one function."""
        ...

    def close(self) -> None:
        """Give up what is not the engine's; the engine itself belongs to the caller."""


def database_of(engine: Engine | AsyncEngine) -> Database:
    return _AsyncDatabase(engine) if isinstance(engine, AsyncEngine) else _ThreadDatabase(engine)


class _AsyncDatabase:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self.can_skip_locked = engine.dialect.name in _SKIP_LOCKED

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Run]:
        async with self._engine.begin() as connection:
            yield connection.run_sync

    async def once(self, function: Callable[[Connection], ResultT]) -> ResultT:
        async with self._engine.begin() as connection:
            return await connection.run_sync(function)

    def close(self) -> None:
        """Nothing is ours."""


class _ThreadDatabase:
    """A thread of its own: a blocking driver must not hold up the event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ternmq-outbox")
        self.can_skip_locked = engine.dialect.name in _SKIP_LOCKED

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Run]:
        connection = await self._in_thread(self._engine.connect)

        async def run(function: Callable[[Connection], ResultT]) -> ResultT:
            return await self._in_thread(function, connection)

        try:
            yield run
            await self._in_thread(connection.commit)
        finally:
            await self._in_thread(connection.close)  # rolls back what wasn't committed

    async def once(self, function: Callable[[Connection], ResultT]) -> ResultT:
        """In one go: the lock that SQLite has for all who write must not wait for the event loop to commit."""

        def called() -> ResultT:
            with self._engine.begin() as connection:
                return function(connection)

        return await self._in_thread(called)

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=False)

    async def _in_thread(self, function: Callable[P, ResultT], *args: P.args, **kwargs: P.kwargs) -> ResultT:
        def called() -> ResultT:
            return function(*args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._thread, called)
