"""Converts a record of a store to the message that a consumer receives. The module imports the client library."""

from typing import TYPE_CHECKING

from ternmq.connections.endpoints import Endpoints
from ternmq.messages.message_view import MessageView
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from ternmq_broker.store.log.record import Record

_NOWHERE = Endpoints(scheme=pb.ADDRESS_SCHEME_UNSPECIFIED, addresses=())


def build_view(record: "Record") -> MessageView:
    """Return the record's message, with the fields that a delivery adds."""
    message = pb.Message.FromString(record.rest)
    message.topic.name = record.topic
    properties = message.system_properties
    properties.MergeFromString(record.system)
    properties.queue_id, properties.queue_offset = record.queue_id, record.queue_offset
    properties.store_timestamp.FromMilliseconds(record.stored_ms)
    return MessageView(message, broker="", endpoints=_NOWHERE)
