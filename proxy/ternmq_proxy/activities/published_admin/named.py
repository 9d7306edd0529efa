"""The topics and groups that a request names, as the registry has them."""

from typing import TYPE_CHECKING, NoReturn

from ternmq_common.errors import MessagingError
from ternmq_common.names import checked_group, checked_topic
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_common.model import Group, Topic
    from ternmq_protos.v2.definition_pb2 import Resource
    from ternmq_proxy.services import Services


async def named_topic(resource: "Resource", services: "Services") -> "Topic":
    """ILLEGAL_TOPIC, or TOPIC_NOT_FOUND."""
    return await services.catalog.existing_topic(checked_topic(resource.name))


async def named_group(resource: "Resource", services: "Services") -> "Group":
    """ILLEGAL_CONSUMER_GROUP, or CONSUMER_GROUP_NOT_FOUND."""
    return await services.catalog.existing_group(checked_group(resource.name))


async def topics_of(group: str, resources: "Iterable[Resource]", services: "Services") -> list[str]:
    """The names of those topics, each once, or if there are none of what members of the group subscribe."""
    names = {resource.name: (await named_topic(resource, services)).name for resource in resources}
    return sorted(names.values()) if names else services.subscriptions.topics(group)


def refuse_lite() -> NoReturn:
    """Lite topics are not served by any call."""
    raise MessagingError(definition_pb2.NOT_IMPLEMENTED, "lite topics are not served by this version")
