"""Transactions of a relay, on a plain or an async engine; the work in them is plain functions of a connection."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncEngine

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
# Databases for which relays that share rows by SKIP LOCKED are tested.
_SKIP_LOCKED = frozenset({"postgresql"})


class RunFunction(Protocol):
    """Runs a function with the connection of the transaction."""

    def __call__(self, function: Callable[[Connection], ResultT], /) -> Awaitable[ResultT]: ...


class RelayDatabase(Protocol):
    """The part of an engine that a relay needs."""

    can_skip_locked: bool

    def open_transaction(self) -> AbstractAsyncContextManager[RunFunction]:
        """Open a transaction for functions that run one after the other; it is committed when the block ends without an
        error."""

    async def run_once(self, function: Callable[[Connection], ResultT]) -> ResultT:
        """Run one function in a transaction."""
        ...

    def close(self) -> None:
        """Close what is not the engine's; the engine belongs to the caller."""


def create_database(engine: Engine | AsyncEngine) -> RelayDatabase:
    return _AsyncDatabase(engine) if isinstance(engine, AsyncEngine) else _ThreadDatabase(engine)


class _AsyncDatabase:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self.can_skip_locked = engine.dialect.name in _SKIP_LOCKED

    @asynccontextmanager
    async def open_transaction(self) -> AsyncIterator[RunFunction]:
        async with self._engine.begin() as connection:
            yield connection.run_sync

    async def run_once(self, function: Callable[[Connection], ResultT]) -> ResultT:
        async with self._engine.begin() as connection:
            return await connection.run_sync(function)

    def close(self) -> None:
        """Do nothing: everything is the engine's."""


class _ThreadDatabase:
    """Uses the engine in a thread of its own: a blocking driver must not hold up the event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ternmq-outbox")
        self.can_skip_locked = engine.dialect.name in _SKIP_LOCKED

    @asynccontextmanager
    async def open_transaction(self) -> AsyncIterator[RunFunction]:
        connection = await self._in_thread(self._engine.connect)

        async def run(function: Callable[[Connection], ResultT]) -> ResultT:
            return await self._in_thread(function, connection)

        try:
            yield run
            await self._in_thread(connection.commit)
        finally:
            await self._in_thread(connection.close)  # rolls back what wasn't committed

    async def run_once(self, function: Callable[[Connection], ResultT]) -> ResultT:
        """Run it in one step: SQLite's lock for all writers must not wait for the event loop to commit."""

        def called() -> ResultT:
            with self._engine.begin() as connection:
                return function(connection)

        return await self._in_thread(called)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False)

    async def _in_thread(self, function: Callable[P, ResultT], *args: P.args, **kwargs: P.kwargs) -> ResultT:
        def called() -> ResultT:
            return function(*args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._thread, called)
