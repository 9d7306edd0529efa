"""Whether a user may do what a call wants to do.

Deny wins    whatever allows the same, and however broad the one that denies is. (RocketMQ asks the closest.)
Nothing      that allows it is no: there is no default.
Super users  may do everything, and policies don't touch them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.access.resources import ResourceKind
from ternmq_common.names import group_of_derived

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    from ternmq_common.access.actions import Action
    from ternmq_common.access.users import Policy, User

    Source = IPv4Address | IPv6Address | None


@dataclass(frozen=True, slots=True)
class Question:
    """What a call wants to do with a resource: one of the actions suffices. No action at all: super users only."""

    kind: ResourceKind
    name: str
    actions: "Action"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`policy` is the one that decided, None if none was about it."""

    is_allowed: bool
    policy: "Policy | None" = None


def asked_of_topic(topic: str, actions: "Action") -> Question:
    """A group's retry and dead letter topics belong to the group."""
    group = group_of_derived(topic)
    if group is not None:
        return Question(ResourceKind.GROUP, group, actions)
    return Question(ResourceKind.TOPIC, topic, actions)


def asked_of_group(group: str, actions: "Action") -> Question:
    return Question(ResourceKind.GROUP, group, actions)


def asked_of_cluster(name: str, actions: "Action") -> Question:
    """`name` is what of the server: `brokers`, `clients`, `users/alice`..."""
    return Question(ResourceKind.CLUSTER, name, actions)


def decide(user: "User", question: Question, source: "Source") -> Verdict:
    """`source` is the address that the call came from, None if it has none (a Unix socket): a policy with ranges is
    not about that one, unless it denies."""
    if user.is_super:
        return Verdict(is_allowed=True)
    allowing = None
    for policy in user.policies:
        if not policy.is_about(question, source):
            continue
        if not policy.allows:
            return Verdict(is_allowed=False, policy=policy)
        allowing = allowing or policy
    return Verdict(is_allowed=allowing is not None, policy=allowing)
