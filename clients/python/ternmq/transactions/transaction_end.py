"""Ends a transaction at the server, and repeats that until the server answers.

A call without an answer, or with one that a repetition may change, is repeated with backoff. TernMQ answers a repeated
COMMIT like the first one; Apache RocketMQ answers INTERNAL_SERVER_ERROR, as for any transaction that it can't find, so
there a lost first answer ends as `TransactionOutcomeUnknown` although the server did it.
"""

import asyncio
import random

from ternmq.connections.connection import END_TRANSACTION, CallEndpoint
from ternmq.errors import ClientError, TransactionOutcomeUnknown, TransactionRefused, check_status
from ternmq.times.backoff import END_BACKOFF, Backoff
from ternmq.transactions.transaction import HalfMessage, TransactionResolution
from ternmq_common.pacing.backoff import add_jitter
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

# A commit is worth more patience than a send, which its caller can repeat: a server that restarts is back in time.
END_ATTEMPTS = 5
_ON_THE_WIRE = {TransactionResolution.COMMIT: pb.COMMIT, TransactionResolution.ROLLBACK: pb.ROLLBACK}


async def end_transaction(
    call: CallEndpoint,
    half: HalfMessage,
    resolution: TransactionResolution,
    source: pb.TransactionSource,
    backoff: Backoff = END_BACKOFF,
) -> None:
    """End a transaction. Raises `TransactionRefused` or `TransactionOutcomeUnknown`; there is no third way to fail."""
    request = rpc.EndTransactionRequest(
        topic=half.topic,
        message_id=half.message_id,
        transaction_id=half.transaction_id,
        resolution=_ON_THE_WIRE[resolution],
        source=source,
        trace_context=half.trace_context or "",
    )
    for attempt in range(1, END_ATTEMPTS + 1):
        try:
            check_status((await call(half.endpoints, END_TRANSACTION, request)).status)
        except ClientError as error:
            if error.code == pb.INVALID_TRANSACTION_ID:
                raise TransactionRefused(
                    error.code, f"the server refuses the {resolution.value} of {half.transaction_id}: {error.message}"
                ) from error
            if not error.retryable or attempt == END_ATTEMPTS:
                raise TransactionOutcomeUnknown(half.transaction_id, resolution.value, error) from error
        else:
            return
        # Not a secret: it only spreads the repetitions of many producers.
        await asyncio.sleep(add_jitter(backoff.delay_s(attempt), random.random()))  # noqa: S311
