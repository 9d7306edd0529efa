"""The rights that calls need: an action on a resource of one kind, whose name is in the request.

Each need exists once, so that decisions can be remembered by its identity.
"""

from typing import TYPE_CHECKING, Final

from ternmq_common.access.actions import AccessAction
from ternmq_common.access.decision import AccessRequest, request_for_cluster, request_for_group, request_for_topic
from ternmq_common.access.resources import ResourceKind

if TYPE_CHECKING:
    from collections.abc import Callable

_REQUESTS: "dict[ResourceKind, Callable[[str, AccessAction], AccessRequest]]" = {
    ResourceKind.TOPIC: request_for_topic,
    ResourceKind.GROUP: request_for_group,
    ResourceKind.CLUSTER: request_for_cluster,
}


class AccessNeed:
    """One of these actions on a resource of this kind, compared by identity."""

    __slots__ = ("actions", "kind")

    def __init__(self, kind: ResourceKind, actions: AccessAction) -> None:
        self.kind, self.actions = kind, actions

    def for_resource(self, name: str) -> AccessRequest:
        """Return the need for the resource of that name."""
        return _REQUESTS[self.kind](name, self.actions)


NamedNeed = tuple[AccessNeed, str]
"""A need, and the name of the resource."""

TOPIC_PUB: Final = AccessNeed(ResourceKind.TOPIC, AccessAction.PUB)
TOPIC_SUB: Final = AccessNeed(ResourceKind.TOPIC, AccessAction.SUB)
TOPIC_ROUTE = AccessNeed(ResourceKind.TOPIC, AccessAction.PUB | AccessAction.SUB | AccessAction.GET)
TOPIC_QUERY = AccessNeed(ResourceKind.TOPIC, AccessAction.SUB | AccessAction.GET)
TOPIC_CREATE: Final = AccessNeed(ResourceKind.TOPIC, AccessAction.CREATE)
TOPIC_UPDATE = AccessNeed(ResourceKind.TOPIC, AccessAction.UPDATE)
TOPIC_DELETE = AccessNeed(ResourceKind.TOPIC, AccessAction.DELETE)
TOPIC_CHANGE = AccessNeed(ResourceKind.TOPIC, AccessAction.UPDATE | AccessAction.DELETE)
TOPIC_GET = AccessNeed(ResourceKind.TOPIC, AccessAction.GET)
TOPIC_LIST = AccessNeed(ResourceKind.TOPIC, AccessAction.LIST | AccessAction.GET)
GROUP_SUB: Final = AccessNeed(ResourceKind.GROUP, AccessAction.SUB)
GROUP_CREATE = AccessNeed(ResourceKind.GROUP, AccessAction.CREATE)
GROUP_UPDATE = AccessNeed(ResourceKind.GROUP, AccessAction.UPDATE)
GROUP_DELETE = AccessNeed(ResourceKind.GROUP, AccessAction.DELETE)
GROUP_GET = AccessNeed(ResourceKind.GROUP, AccessAction.GET)
GROUP_LIST = AccessNeed(ResourceKind.GROUP, AccessAction.LIST | AccessAction.GET)
CLUSTER_GET = AccessNeed(ResourceKind.CLUSTER, AccessAction.GET)
CLUSTER_LIST = AccessNeed(ResourceKind.CLUSTER, AccessAction.LIST | AccessAction.GET)
CLUSTER_UPDATE = AccessNeed(ResourceKind.CLUSTER, AccessAction.UPDATE)
SUPER_USER = AccessNeed(ResourceKind.CLUSTER, AccessAction(0))

METRICS: NamedNeed = (CLUSTER_GET, "metrics")
"""The right that paths of the HTTP front need, except those of health, which are open."""
