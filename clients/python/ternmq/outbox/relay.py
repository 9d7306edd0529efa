"""The relay: reads the committed rows of an outbox and sends them.

Batch       rows are locked (if the database can), sent, then deleted or marked, in one transaction: when a relay dies
            in between, they are released and sent again under the same ids. Otherwise two short transactions
Away        while no server can be reached rows stay unchanged, and the relay tries again with backoff; the same while
            the database is away
Failures    of single rows that may pass postpone them with backoff; a row that the server refuses stays in the table
            with its error, and is logged
Close       ends after the current batch
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, Unpack

from sqlalchemy import Connection, Engine, Row, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from ternmq.errors import ClientError, is_away
from ternmq.messages.message import SendReceipt
from ternmq.options import ClientOptions
from ternmq.outbox.databases import create_database
from ternmq.outbox.row_sending import Outcome, is_refusal, send_rows
from ternmq.outbox.rows import BatchLimits, PostponedRow, RefusedRow, settle_rows, take_rows
from ternmq.outbox.table import Outbox, now_ms
from ternmq.process.program_signals import ProgramSignals
from ternmq.producing.producer import Producer
from ternmq.times.durations import Seconds, seconds_above_0
from ternmq_common.limits import MIB
from ternmq_common.pacing.backoff import ExponentialBackoff, add_jitter

logger = logging.getLogger(__name__)

BATCH_ROWS = 100
BATCH_BYTES = 16 * MIB
BATCH_ROWS_MAX = 10_000
POLL_INTERVAL_S = 0.5
DELIVERY_TIMEOUT_S = 10.0
AWAY_BACKOFF = ExponentialBackoff(initial_s=0.2, max_s=10.0)
ROW_BACKOFF = ExponentialBackoff(initial_s=1.0, max_s=300.0)


@dataclass(frozen=True, slots=True)
class _RelayedBatch:
    """The result of one batch: how many rows were sent and taken, and the error if the server was away."""

    sent_rows: int
    taken_rows: int
    away: ClientError | None = None


class OutboxRelay:
    """Sends the rows of `outbox`, which is in the database of `engine`, to the server at `endpoint`.

        asyncio.run(OutboxRelay(outbox, engine, "127.0.0.1:8081").run())     # a program of its own
        OutboxRelay(outbox, engine, "127.0.0.1:8081").run_blocking()         # the same
        async with OutboxRelay(outbox, engine, "127.0.0.1:8081"): ...        # beside an application

    With a plain `Engine` the database is used in a thread. Any number of relays may run on PostgreSQL; elsewhere only
    one, or rows are sent several times. `batch_rows` and `batch_bytes` limit what is in memory and in one transaction.
    An empty table is read again after about `poll_interval` seconds. The other arguments are those of
    `ternmq.options.ClientOptions`.
    """

    def __init__(
        self,
        outbox: Outbox,
        engine: Engine | AsyncEngine,
        endpoint: str,
        *,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
        poll_interval: Seconds = POLL_INTERVAL_S,
        delivery_timeout: Seconds = DELIVERY_TIMEOUT_S,
        **options: Unpack[ClientOptions],
    ) -> None:
        if not 1 <= batch_rows <= BATCH_ROWS_MAX or batch_bytes < 1:
            raise ValueError(f"{batch_rows=} must be 1 to {BATCH_ROWS_MAX}, {batch_bytes=} at least 1")
        self._outbox = outbox
        self._database = create_database(engine)
        self._limits = BatchLimits(rows=batch_rows, body_bytes=batch_bytes)
        self._poll_interval_s = seconds_above_0("poll_interval", poll_interval)
        self._producer = Producer(endpoint, delivery_timeout=delivery_timeout, **options)
        self._closing = asyncio.Event()
        self._relaying: asyncio.Task[None] | None = None
        self._failures = 0

    async def run(self) -> None:
        """Relay until SIGINT or SIGTERM, then close. Outside of the main thread, which alone gets signals, until
        `close` is called."""
        with ProgramSignals(lambda: self._relaying is not None) as signals:
            async with self:
                await signals.wait_signal(self._closing)

    def run_blocking(self) -> None:
        """Run it where no event loop runs."""
        asyncio.run(self.run())

    async def start(self) -> Self:
        """Begin to relay; raises if the database has no such table, or the server can't be reached."""
        try:
            async with self._database.open_transaction() as run:
                await run(self._check_table)
            await self._producer.start()
        except BaseException:
            self._database.close()
            raise
        self._relaying = asyncio.create_task(self._relay_until_closed())
        return self

    async def close(self) -> None:
        """Finish the current batch and end, for good; may be called twice."""
        self._closing.set()
        if self._relaying is not None:
            await asyncio.wait([self._relaying])
        await self._producer.close()
        self._database.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_table(self, connection: Connection) -> None:
        connection.execute(select(self._outbox.table).limit(1))

    async def _relay_until_closed(self) -> None:
        while not self._closing.is_set():
            try:
                passed = await self._relay_batch()
            except (SQLAlchemyError, OSError) as error:
                await self._pause_away(f"the database: {_describe_error(error)}")
                continue
            except Exception:
                logger.exception("a batch of the outbox failed")
                await self._pause_away("see above")
                continue
            if passed.away is not None:
                await self._pause_away(str(passed.away))
                continue
            if self._failures:
                logger.info("the outbox is relayed again after %d failures", self._failures)
                self._failures = 0
            if not passed.sent_rows:
                await self._pause_relaying(add_jitter(self._poll_interval_s, random.random()))  # noqa: S311 - not cryptography

    async def _pause_away(self, why: str) -> None:
        self._failures += 1
        if self._failures == 1:  # one warning for each outage
            logger.warning("the outbox can't be relayed and is tried again: %s", why)
        await self._pause_relaying(add_jitter(AWAY_BACKOFF.delay_s(self._failures), random.random()))  # noqa: S311

    async def _pause_relaying(self, delay_s: float) -> None:
        try:
            async with asyncio.timeout(delay_s):
                await self._closing.wait()
        except TimeoutError:
            return

    async def _relay_batch(self) -> _RelayedBatch:
        if self._database.can_skip_locked:
            async with self._database.open_transaction() as run:
                rows = await run(self._take_rows)
                outcomes = await send_rows(self._producer, rows)
                return await run(lambda connection: self._settle_rows(connection, rows, outcomes))
        # Without locks a transaction would only keep others from writing while messages are sent.
        rows = await self._database.run_once(self._take_rows)
        outcomes = await send_rows(self._producer, rows)
        return await self._database.run_once(lambda connection: self._settle_rows(connection, rows, outcomes))

    def _take_rows(self, connection: Connection) -> list[Row[Any]]:
        lock = self._database.can_skip_locked
        return list(take_rows(connection, self._outbox, self._limits, at_ms=now_ms(), lock=lock))

    def _settle_rows(
        self, connection: Connection, rows: list[Row[Any]], outcomes: Mapping[int, Outcome]
    ) -> _RelayedBatch:
        sent = {row_id for row_id, outcome in outcomes.items() if isinstance(outcome, SendReceipt)}
        errors = {row_id: outcome for row_id, outcome in outcomes.items() if isinstance(outcome, ClientError)}
        if errors and not sent and all(map(is_away, errors.values())):
            return _RelayedBatch(0, len(rows), next(iter(errors.values())))
        failed = [_record_failure(row, errors[row.id]) for row in rows if row.id in errors]
        settle_rows(connection, self._outbox, sent=sent, failed=failed, at_ms=now_ms())
        return _RelayedBatch(len(sent), len(rows))


def _describe_error(error: Exception) -> str:
    """Return the driver's message in one line: SQLAlchemy adds the whole statement."""
    text = str(error.orig if isinstance(error, DBAPIError) else error).strip()
    return text.partition("\n")[0] or type(error).__name__


def _record_failure(row: Row[Any], error: ClientError) -> RefusedRow | PostponedRow:
    if is_refusal(error):
        logger.error("message %s of the outbox is refused and stays there: %s", row.message_id, error)
        return RefusedRow(row.id, str(error))
    delay_s = add_jitter(ROW_BACKOFF.delay_s(row.attempts + 1), random.random())  # noqa: S311
    logger.warning("message %s of the outbox is tried again in %.1f s: %s", row.message_id, delay_s, error)
    return PostponedRow(row.id, now_ms() + int(delay_s * 1000))
