"""Locks of queues for clients that consume them in order. The broker of a queue has its lock.

A queue whose broker can't be reached is not locked: its client tries again.
"""

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.operations.by_queue.queues import check_used_name
from ternmq_proxy.operations.rights import require_consumer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_common.shard.model import QueueRef
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_RPC = "LockQueues"
_UNREACHABLE = frozenset({ErrorCode.HA_NOT_AVAILABLE, ErrorCode.PROXY_TIMEOUT})
_NO_TOPIC = frozenset({ErrorCode.TOPIC_NOT_FOUND, ErrorCode.ILLEGAL_TOPIC})
QUEUES_MAX = 4096
TOPICS_MAX = 256


async def lock_queues(
    group: str, client_id: str, queues: "Sequence[QueueRef]", call: "Call", services: "Services"
) -> "list[QueueRef]":
    """Lock queues for the client; return those that it has now, under the names that it gave."""
    lock = services.messages.consuming.lock_queues

    async def ask(broker: str, some: "list[QueueRef]") -> "list[QueueRef]":
        return await lock(broker, group, client_id, some)

    return await _ask_brokers(group, queues, ask, call, services)


async def unlock_queues(
    group: str, client_id: str, queues: "Sequence[QueueRef]", call: "Call", services: "Services"
) -> None:
    """Release those of the queues that the client has."""
    unlock = services.messages.consuming.unlock_queues

    async def ask(broker: str, some: "list[QueueRef]") -> "list[QueueRef]":
        await unlock(broker, group, client_id, some)
        return some

    await _ask_brokers(group, queues, ask, call, services)


async def has_locks(group: str, services: "Services") -> bool:
    """Return whether a client of the group has a lock at one of the brokers that can be reached."""

    async def ask(broker: str) -> bool:
        try:
            return await services.messages.consuming.has_locks(broker, group)
        except MessagingError as error:
            if error.code not in _UNREACHABLE:
                raise
            return False

    return any(await asyncio.gather(*(ask(broker.name) for broker in services.catalog.list_brokers())))


async def _ask_brokers(
    group: str,
    queues: "Sequence[QueueRef]",
    ask: "Callable[[str, list[QueueRef]], Awaitable[list[QueueRef]]]",
    call: "Call",
    services: "Services",
) -> "list[QueueRef]":
    """Ask each queue's broker; return the queues that the brokers answered with. Those that don't exist are left out,
    for a broker has a limit of locks. Raises CONSUMER_GROUP_NOT_FOUND."""
    if len(queues) > QUEUES_MAX:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"{len(queues)} queues were named; {QUEUES_MAX} are allowed")
    topics = {queue.topic for queue in queues}
    if len(topics) > TOPICS_MAX:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"{len(topics)} topics were named; {TOPICS_MAX} are allowed")
    for topic in topics:
        require_consumer(_RPC, call, group, topic, services)
    counts = {topic: await _count_queues(topic, services) for topic in topics}
    await services.catalog.existing_group(group)
    names = [broker.name for broker in services.catalog.list_brokers()]
    by_broker: defaultdict[str, list[QueueRef]] = defaultdict(list)
    for queue in queues:
        if not 0 <= queue.queue_id < counts[queue.topic]:
            continue
        # Where there is one broker, any name means that one.
        broker = names[0] if len(names) == 1 else queue.broker
        if broker in names:
            by_broker[broker].append(queue)

    async def ask_one(broker: str, some: "list[QueueRef]") -> "list[QueueRef]":
        try:
            return await ask(broker, some)
        except MessagingError as error:
            if error.code not in _UNREACHABLE:
                raise
            return []

    answers = await asyncio.gather(*(ask_one(broker, some) for broker, some in by_broker.items()))
    return [queue for some in answers for queue in some]


async def _count_queues(topic: str, services: "Services") -> int:
    """Return how many queues the topic has on each of its brokers, 0 if there is no such topic."""
    try:
        return (await services.catalog.existing_topic(check_used_name(topic))).queues
    except MessagingError as error:
        if error.code in _NO_TOPIC:
            return 0
        raise
