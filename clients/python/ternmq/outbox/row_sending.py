"""Sends the rows of one batch, in the order that their message groups need."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Row

from ternmq.errors import (
    BadRequest,
    ClientError,
    PayloadEmpty,
    PayloadTooLarge,
    RequestHeaderFieldsTooLarge,
    SendManyError,
    Unsupported,
)
from ternmq.messages.message import Message, SendReceipt
from ternmq.outbox.table import read_message
from ternmq.producing.producer import Producer
from ternmq_protos.v2 import definition_pb2 as pb

# The row itself is at fault. A missing topic or right is not: the row is sent once an operator has added it.
_REFUSALS = (BadRequest, PayloadEmpty, PayloadTooLarge, RequestHeaderFieldsTooLarge, Unsupported)

Outcome = SendReceipt | ClientError


def is_refusal(outcome: Outcome) -> bool:
    """Return whether sending it again is useless."""
    return isinstance(outcome, _REFUSALS)


async def send_rows(producer: Producer, rows: Sequence[Row[Any]]) -> dict[int, Outcome]:
    """Send the rows; return the outcomes by row id, without those behind a failed row of their message group.

    Each further row of a message group is sent after the one before it is stored, since a request can fail in part; all
    others are sent at once.
    """
    outcomes: dict[int, Outcome] = {}
    waiting = _group_rows(rows)
    while waiting:
        front = [group.pop(0) for group in waiting]
        sent = await _send_round(producer, front)
        outcomes |= sent
        pairs = zip(waiting, front, strict=True)
        waiting = [group for group, row in pairs if group and isinstance(sent[row.id], SendReceipt)]
    return outcomes


def _group_rows(rows: Sequence[Row[Any]]) -> list[list[Row[Any]]]:
    """Return one list for each message group, and one for each row without one."""
    groups: defaultdict[tuple[str, str], list[Row[Any]]] = defaultdict(list)
    alone: list[list[Row[Any]]] = []
    for row in rows:
        if row.message_group is None:
            alone.append([row])
        else:
            groups[row.topic, row.message_group].append(row)
    return list(chain(alone, groups.values()))


async def _send_round(producer: Producer, rows: Sequence[Row[Any]]) -> Mapping[int, Outcome]:
    messages: dict[int, Message] = {}
    outcomes: dict[int, Outcome] = {}
    for row in rows:
        try:
            messages[row.id] = read_message(row)
        except (ClientError, ValueError, TypeError) as error:  # this row was not written by an outbox
            outcomes[row.id] = BadRequest(pb.BAD_REQUEST, f"the row holds no message: {error}")
    ids = {row.id: row.message_id for row in rows if row.id in messages}
    outcomes |= await _send_messages(producer, messages, ids)
    for row_id in [one for one, outcome in outcomes.items() if len(messages) > 1 and is_refusal(outcome)]:
        if row_id in messages:  # a request is refused as a whole: sent alone it shows which row is at fault
            outcomes |= await _send_messages(producer, {row_id: messages[row_id]}, ids)
    return outcomes


async def _send_messages(
    producer: Producer, messages: Mapping[int, Message], message_ids: Mapping[int, str]
) -> dict[int, Outcome]:
    row_ids = list(messages)
    try:
        outcomes: Sequence[Outcome] = await producer.send_many(
            messages.values(), message_ids=[message_ids[row_id] for row_id in row_ids]
        )
    except SendManyError as error:
        outcomes = error.outcomes
    except BadRequest as error:  # an id that no server takes
        outcomes = [error] * len(row_ids)
    return dict(zip(row_ids, outcomes, strict=True))
