"""What a call needs: an action on a resource of one kind, whose name is in the request.

Each need exists once, so that decisions can be remembered by its identity.
"""

from typing import TYPE_CHECKING

from ternmq_common.access.actions import AccessAction
from ternmq_common.access.decision import AccessRequest, request_for_cluster, request_for_group, request_for_topic
from ternmq_common.access.resources import ResourceKind

if TYPE_CHECKING:
    from collections.abc import Callable

_ASKED: "dict[ResourceKind, Callable[[str, AccessAction], AccessRequest]]" = {
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
        return _ASKED[self.kind](name, self.actions)


NamedNeed = tuple[AccessNeed, str]
"""A need, and the name of the resource."""

TOPIC_PUB = Need(ResourceKind.TOPIC, AccessAction.PUB)
TOPIC_SUB = Need(ResourceKind.TOPIC, AccessAction.SUB)
TOPIC_ROUTE = Need(ResourceKind.TOPIC, AccessAction.PUB | AccessAction.SUB | AccessAction.GET)
TOPIC_QUERY = Need(ResourceKind.TOPIC, AccessAction.SUB | AccessAction.GET)
TOPIC_CREATE = Need(ResourceKind.TOPIC, AccessAction.CREATE)
TOPIC_UPDATE = Need(ResourceKind.TOPIC, AccessAction.UPDATE)
TOPIC_DELETE = Need(ResourceKind.TOPIC, AccessAction.DELETE)
TOPIC_GET = Need(ResourceKind.TOPIC, AccessAction.GET)
TOPIC_LIST = Need(ResourceKind.TOPIC, AccessAction.LIST | AccessAction.GET)
GROUP_SUB = Need(ResourceKind.GROUP, AccessAction.SUB)
GROUP_CREATE = Need(ResourceKind.GROUP, AccessAction.CREATE)
GROUP_UPDATE = Need(ResourceKind.GROUP, AccessAction.UPDATE)
GROUP_DELETE = Need(ResourceKind.GROUP, AccessAction.DELETE)
GROUP_GET = Need(ResourceKind.GROUP, AccessAction.GET)
GROUP_LIST = Need(ResourceKind.GROUP, AccessAction.LIST | AccessAction.GET)
CLUSTER_GET = Need(ResourceKind.CLUSTER, AccessAction.GET)
CLUSTER_LIST = Need(ResourceKind.CLUSTER, AccessAction.LIST | AccessAction.GET)
CLUSTER_UPDATE = Need(ResourceKind.CLUSTER, AccessAction.UPDATE)
SUPER_USER = Need(ResourceKind.CLUSTER, AccessAction(0))

METRICS: Asked = (CLUSTER_GET, "metrics")
"""What the HTTP front's paths need, but those of health, which are open."""
