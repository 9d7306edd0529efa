"""Sends the rows that are not acknowledged yet, in batches, with several requests in flight."""

import asyncio
from collections.abc import Iterator

from ternmq import ClientError, Message, Producer, SendManyError
from ternmq_command.demo import TOPIC
from ternmq_command.demo.ledger import Ledger
from ternmq_command.demo.waiting import wait_until

BATCH_MESSAGES = 64
REQUESTS_IN_FLIGHT = 6
# How far the sender may be ahead of the consumers; with more, the latency would only measure the queue's length.
AHEAD_MAX = 2048
RETRY_PAUSE_S = 0.2

Batch = list[tuple[int, Message]]


async def send_all(endpoint: str, messages: Iterator[tuple[int, Message]], ledger: Ledger, stop: asyncio.Event) -> None:
    """Send until each message is acknowledged, also across restarts of the broker, or until `stop` is set.

    Requests in flight are awaited then, so that the ledger of a stopped demo has their results.
    """
    batches = _split_batches(messages)
    async with Producer(endpoint, topics=[TOPIC]) as producer, asyncio.TaskGroup() as tasks:
        for _ in range(REQUESTS_IN_FLIGHT):
            tasks.create_task(_send_batches(producer, batches, ledger, stop))


async def _send_batches(producer: Producer, batches: Iterator[Batch], ledger: Ledger, stop: asyncio.Event) -> None:
    for batch in batches:
        await wait_until(lambda: ledger.sent_count - ledger.consumed_count <= AHEAD_MAX or stop.is_set())
        waiting = batch
        while waiting and not stop.is_set():
            waiting = await _send_once(producer, waiting, ledger)
            if waiting:
                await asyncio.sleep(RETRY_PAUSE_S)
        if stop.is_set():
            return


async def _send_once(producer: Producer, batch: Batch, ledger: Ledger) -> Batch:
    """Send a batch once; return the messages to send again. Raises errors that are permanent."""
    try:
        await producer.send_many(message for _, message in batch)
    except SendManyError as error:
        failed = [isinstance(outcome, ClientError) for outcome in error.outcomes]
        final = next((one for one in error.errors if not one.retryable), None)
        if final is not None:
            raise final from None
    except ClientError as error:
        if not error.retryable:
            raise
        failed = [True] * len(batch)
    else:
        failed = [False] * len(batch)
    ledger.add_sent([row for (row, _), lost in zip(batch, failed, strict=True) if not lost])
    return [item for item, lost in zip(batch, failed, strict=True) if lost]


def _split_batches(messages: Iterator[tuple[int, Message]]) -> Iterator[Batch]:
    batch: Batch = []
    for item in messages:
        batch.append(item)
        if len(batch) == BATCH_MESSAGES:
            yield batch
            batch = []
    if batch:
        yield batch
