"""The producer groups of remoting clients, whose members alone know what becomes of a half message of the group."""

from typing import TYPE_CHECKING

from google.protobuf.unknown_fields import UnknownFieldSet

from ternmq_common.shard.hidden_fields import read_hidden
from ternmq_protos.v2.definition_pb2 import SystemProperties
from ternmq_proxy.fronts.remoting.call import ClientConnection
from ternmq_proxy.fronts.remoting.messages import property_names as names

if TYPE_CHECKING:
    from ternmq_common.shard.model import StoredMessage
    from ternmq_proxy.processors.group_members import GroupMembers


def find_producer_group(message: "StoredMessage") -> str:
    """Return the producer group of a half message, empty if it was not sent by a remoting client."""
    hidden = read_hidden(UnknownFieldSet(SystemProperties.FromString(message.system)))
    return hidden.properties.get(names.PRODUCER_GROUP, "")


def find_producers(members: "GroupMembers", group: str) -> list[ClientConnection]:
    """Return the connections of the members of a producer group."""
    channels = [member.channel for member in members.producers_of(group)]
    return [channel for channel in channels if isinstance(channel, ClientConnection)]
