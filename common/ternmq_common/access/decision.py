"""Decides whether a user may do what a call wants.

Deny wins    over every policy that allows the same, however broad the denying one is. (RocketMQ takes the closest
             one.)
Nothing      that allows it means no: there is no default.
Super users  may do everything, and policies don't apply to them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.access.resources import ResourceKind
from ternmq_common.names import group_of_derived

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    from ternmq_common.access.actions import AccessAction
    from ternmq_common.access.users import AccessPolicy, AccessUser

    Source = IPv4Address | IPv6Address | None


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """An access request of a call for a resource: one of the actions suffices. No action: super users only."""

    kind: ResourceKind
    name: str
    actions: "AccessAction"


@dataclass(frozen=True, slots=True)
class AccessVerdict:
    """A decision; `policy` is the one that decided, None if no policy applied."""

    is_allowed: bool
    policy: "AccessPolicy | None" = None


def request_for_topic(topic: str, actions: "AccessAction") -> AccessRequest:
    """The request for a topic; a group's retry and dead-letter topics belong to the group."""
    group = group_of_derived(topic)
    if group is not None:
        return AccessRequest(ResourceKind.GROUP, group, actions)
    return AccessRequest(ResourceKind.TOPIC, topic, actions)


def request_for_group(group: str, actions: "AccessAction") -> AccessRequest:
    return AccessRequest(ResourceKind.GROUP, group, actions)


def request_for_cluster(name: str, actions: "AccessAction") -> AccessRequest:
    """The request for a part of the server: `name` is `brokers`, `clients`, `users/alice`..."""
    return AccessRequest(ResourceKind.CLUSTER, name, actions)


def decide_access(user: "AccessUser", question: AccessRequest, source: "Source") -> AccessVerdict:
    """Decide the request of a user.

    `source` is the address of the caller, None without one (a Unix socket): a policy with ranges does not apply to
    that, unless it denies.
    """
    if user.is_super:
        return AccessVerdict(is_allowed=True)
    allowing = None
    for policy in user.policies:
        if not policy.applies_to(question, source):
            continue
        if not policy.allows:
            return AccessVerdict(is_allowed=False, policy=policy)
        allowing = allowing or policy
    return AccessVerdict(is_allowed=allowing is not None, policy=allowing)
