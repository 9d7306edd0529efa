"""Hides bodies of messages from callers that may not receive them."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ternmq_proxy.access.needs import TOPIC_SUB
from ternmq_proxy.processors.sending.stored_form import drop_body

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import StoredMessage
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


def hide_bodies(
    messages: "Sequence[StoredMessage]", topic: str, call: "Call", services: "Services"
) -> "list[StoredMessage]":
    """Return the messages, without their bodies if the caller may not receive from the topic."""
    if services.access.has_right(call, TOPIC_SUB, topic):
        return list(messages)
    return [replace(message, rest=drop_body(message.rest)) for message in messages]
