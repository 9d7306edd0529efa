"""Finds messages for clients: by a key or an id, and by their places in the logs of brokers."""

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.limits import CLIENT_MESSAGE_BYTES
from ternmq_common.names import lite_parent
from ternmq_proxy.access.needs import TOPIC_GET, TOPIC_QUERY
from ternmq_proxy.operations.by_queue.queues import check_used_name
from ternmq_proxy.processors.sending.stored_form import read_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_common.shard.model import StoredMessage
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

FOUND_MAX = 64


class KeySearch(NamedTuple):
    """The newest messages of a topic with a key, at most `limit`, that were stored between two times in milliseconds,
    both included. With `by_id` the key is a message id; else it may be one, too."""

    topic: str
    key: str
    limit: int
    begin_ms: int
    end_ms: int
    by_id: bool = False


async def find_by_key(search: KeySearch, call: "Call", services: "Services") -> "list[StoredMessage]":
    """Return what is found, as far as it fits into an answer, the first in any case. UNAUTHORIZED unless the user may
    read the topic."""
    name = check_used_name(search.topic)
    services.access.require_right("QueryMessages", call, TOPIC_QUERY, name)
    if not services.catalog.has_topic(name):
        return []
    found = [
        message
        for message in await services.messages.inspecting.find_by_key(name, search.key, FOUND_MAX)
        if search.begin_ms <= message.stored_ms <= search.end_ms
        and (not search.by_id or read_names(message.system).message_id == search.key)
    ][: min(max(1, search.limit), FOUND_MAX)]
    sizes = accumulate(len(message.rest) + len(message.system) for message in found)
    fitting = [message for message, size in zip(found, sizes, strict=True) if size <= CLIENT_MESSAGE_BYTES]
    return fitting or found[:1]


async def read_place(
    places: "Iterable[tuple[str, int]]", services: "Services", *, message_id: str = "", broker: str = ""
) -> "StoredMessage | None":
    """Return the message at one of the places, which are brokers and offsets in their logs; None if there is none.

    Where several places have one, since brokers' names share a number, the message of that id is meant, else that of
    that broker.
    """
    found = [
        message
        for name, log_offset in places
        if (message := await services.messages.inspecting.find_by_log_offset(name, log_offset)) is not None
    ]
    if len(found) > 1:
        found.sort(key=lambda each: each.queue.broker != broker)
        found.sort(key=lambda each: read_names(each.system).message_id != message_id)
    return found[0] if found else None


async def find_at_place(
    places: "Iterable[tuple[str, int]]", call: "Call", services: "Services"
) -> "StoredMessage | None":
    """Return the message like `read_place`. UNAUTHORIZED unless the user may look at its topic."""
    message = await read_place(places, services)
    if message is not None:
        services.access.require_right("DescribeMessage", call, TOPIC_GET, lite_parent(message.queue.topic))
    return message
