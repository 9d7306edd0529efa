"""What a call needs to do: an action on something of one kind, whose name the request has.

A need is there once, so that decisions can be remembered by it.
"""

from typing import TYPE_CHECKING

from ternmq_common.access.actions import Action
from ternmq_common.access.decision import Question, asked_of_cluster, asked_of_group, asked_of_topic
from ternmq_common.access.resources import ResourceKind

if TYPE_CHECKING:
    from collections.abc import Callable

_ASKED: "dict[ResourceKind, Callable[[str, Action], Question]]" = {
    ResourceKind.TOPIC: asked_of_topic,
    ResourceKind.GROUP: asked_of_group,
    ResourceKind.CLUSTER: asked_of_cluster,
}


class Need:
    """One of these actions on a resource of the kind. Compared by identity."""

    __slots__ = ("actions", "kind")

    def __init__(self, kind: ResourceKind, actions: Action) -> None:
        self.kind, self.actions = kind, actions

    def of(self, name: str) -> Question:
        """The same, of the resource of that name."""
        return _ASKED[self.kind](name, self.actions)


Asked = tuple[Need, str]
"""A need, and the name of the resource."""

TOPIC_PUB = Need(ResourceKind.TOPIC, Action.PUB)
TOPIC_SUB = Need(ResourceKind.TOPIC, Action.SUB)
TOPIC_ROUTE = Need(ResourceKind.TOPIC, Action.PUB | Action.SUB | Action.GET)
TOPIC_QUERY = Need(ResourceKind.TOPIC, Action.SUB | Action.GET)
TOPIC_CREATE = Need(ResourceKind.TOPIC, Action.CREATE)
TOPIC_UPDATE = Need(ResourceKind.TOPIC, Action.UPDATE)
TOPIC_DELETE = Need(ResourceKind.TOPIC, Action.DELETE)
TOPIC_GET = Need(ResourceKind.TOPIC, Action.GET)
TOPIC_LIST = Need(ResourceKind.TOPIC, Action.LIST | Action.GET)
GROUP_SUB = Need(ResourceKind.GROUP, Action.SUB)
GROUP_CREATE = Need(ResourceKind.GROUP, Action.CREATE)
GROUP_UPDATE = Need(ResourceKind.GROUP, Action.UPDATE)
GROUP_DELETE = Need(ResourceKind.GROUP, Action.DELETE)
GROUP_GET = Need(ResourceKind.GROUP, Action.GET)
GROUP_LIST = Need(ResourceKind.GROUP, Action.LIST | Action.GET)
CLUSTER_GET = Need(ResourceKind.CLUSTER, Action.GET)
CLUSTER_LIST = Need(ResourceKind.CLUSTER, Action.LIST | Action.GET)
CLUSTER_UPDATE = Need(ResourceKind.CLUSTER, Action.UPDATE)
SUPER_USER = Need(ResourceKind.CLUSTER, Action(0))
