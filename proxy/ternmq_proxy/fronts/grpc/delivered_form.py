"""Converts a stored message to one `Message`, as consumers get it; delivery itself frames it by hand
(`common/wire.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.v2.definition_pb2 import Message, SystemProperties

if TYPE_CHECKING:
    from ternmq_common.shard.model import StoredMessage


def delivered_form(stored: "StoredMessage", *, topic: str, store_host: str) -> Message:
    """Return the message with what the store knows of it; `store_host` is `host:port`."""
    message = Message.FromString(stored.rest)
    message.topic.name = topic
    properties = message.system_properties
    properties.CopyFrom(SystemProperties.FromString(stored.system))
    properties.queue_id = stored.queue.queue_id
    properties.queue_offset = stored.queue_offset
    properties.store_timestamp.FromMilliseconds(stored.stored_ms)
    properties.store_host = store_host
    return message
