"""The request that ends a transaction (37)."""

from typing import TYPE_CHECKING

from ternmq_common.shard.model import TransactionResolution, TransactionState
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.messages.delivered_messages import read_half
from ternmq_proxy.fronts.remoting.messages.places import find_place
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.by_queue.transactions import end_found, find_transaction
from ternmq_rpc.remoting.commands import Command

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_proxy.operations.by_queue.transactions import FoundTransaction

_UNDECIDED = 0
_RESOLUTIONS = {8: TransactionResolution.COMMIT, 12: TransactionResolution.ROLLBACK}
_SECOND_MS = 1000


async def end_transaction(context: "RemotingCall") -> Command:
    """Answer 37. A producer that has not decided yet is answered at once, and gets another check later."""
    command = context.command
    decided = command.get_int32("commitOrRollback")
    if decided == _UNDECIDED:
        return Command(ResponseCode.SUCCESS)
    resolution = _RESOLUTIONS.get(decided)
    if resolution is None:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"commitOrRollback is {decided}; 8 commits, 12 rolls back")
    found = await _find_named(context)
    _check_named(found, context)
    await end_found(found, resolution, context.call, context.services)
    return Command(ResponseCode.SUCCESS)


async def _find_named(context: "RemotingCall") -> "FoundTransaction":
    command = context.command
    message_id = command.get_text("msgId", "") or command.get_text("transactionId", "")
    brokers = [broker.name for broker in context.services.catalog.list_brokers()]
    places = find_place(command.get_int64("commitLogOffset"), brokers)
    found = await find_transaction(message_id, places, context.call, context.services) if message_id else None
    if found is None:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
    return found


def _check_named(found: "FoundTransaction", context: "RemotingCall") -> None:
    """Check what the request says of its half message against that message."""
    command = context.command
    half = read_half(found.message)
    if half.producer_group != command.get_text("producerGroup", ""):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    if found.id.log_offset != command.get_int64("tranStateTableOffset"):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
    if half.immunity_s is None or command.get_bool("fromTransactionCheck", default=False):
        return
    age_ms = context.services.clock.now_ms() - half.born_ms
    # A repetition of what was decided in time comes late, and is none of the producer's mistakes.
    if found.transaction.state is TransactionState.PENDING and age_ms > half.immunity_s * _SECOND_MS:
        raise RequestRefused(
            ResponseCode.ILLEGAL_OPERATION,
            f"the half message was born {age_ms} ms ago, and its time without checks was {half.immunity_s} s; "
            "the transaction waits for a check",
        )
