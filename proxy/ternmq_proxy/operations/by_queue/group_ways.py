"""The way in which a group consumes: it pulls, as remoting clients that keep offsets do, or it pops, as receives do.

A group has one way at a time, since both move one progress: members of the other way are refused until the last member
of this way is gone. All processes that serve the brokers' clients are asked when a client joins a group; later calls
of the client are not checked again.
"""

import enum
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.peers.asking import ask_others

if TYPE_CHECKING:
    from ternmq_common.shard.model import ConsumerGroup
    from ternmq_proxy.services import Services

WAY = "group-way"


class GroupWay(enum.Enum):
    """How the members of a group consume."""

    NONE = ""
    POPS = "pops"
    PULLS = "pulls"


def _find_way_here(group: str, services: "Services") -> GroupWay:
    way, pops_by_remoting = GroupWay.NONE, services.catalog.group_or_default(group).remoting_pop
    for client in services.clients.group_members(group):
        if client.keeps_offsets:
            return GroupWay.PULLS  # members of the other way are refused, whichever are known
        if client.is_by_remoting and not pops_by_remoting:
            continue  # it is about to pull, as the group's settings say
        if client.popping == group or (client.is_consumer and not client.is_pulling):
            way = GroupWay.POPS
    return way


async def answer_way(argument: str, services: "Services") -> bytes:
    """Return the way of the group by its members here."""
    return _find_way_here(argument, services).value.encode()


async def _find_way(group: str, services: "Services") -> GroupWay:
    here = _find_way_here(group, services)
    if here is GroupWay.PULLS:
        return here
    ways, _ = await ask_others(bytes.decode, WAY, group, services)
    if GroupWay.PULLS.value in ways:
        return GroupWay.PULLS
    return GroupWay.POPS if here is GroupWay.POPS or GroupWay.POPS.value in ways else GroupWay.NONE


async def require_pulling(group: str, services: "Services") -> None:
    """Raise FORBIDDEN if the group pops."""
    if await _find_way(group, services) is GroupWay.POPS:
        raise _other_way_error(group, "gRPC", "remoting")


async def require_popping(group: str, services: "Services") -> None:
    """Raise FORBIDDEN if the group pulls by remoting clients."""
    if await _find_way(group, services) is GroupWay.PULLS:
        raise _other_way_error(group, "remoting", "gRPC")


def require_pops(group: "ConsumerGroup") -> None:
    """Raise FORBIDDEN unless the group's settings have its members by the remoting protocol pop."""
    if not group.remoting_pop:
        raise MessagingError(
            ErrorCode.FORBIDDEN,
            f"consumer group {group.name!r} does not pop by the remoting protocol: let it, by mqadmin setConsumeMode "
            f"-m POP or `ternmq group update {group.name} --remoting-pop`",
        )


def require_offsets(group: "ConsumerGroup") -> None:
    """Raise FORBIDDEN if the group's settings have its members by the remoting protocol pop, and keep no offsets."""
    if group.remoting_pop:
        raise MessagingError(
            ErrorCode.FORBIDDEN,
            f"consumer group {group.name!r} pops (mqadmin setConsumeMode, or remoting_pop of ternmq group): its "
            "members are push consumers of RocketMQ 5 with setClientRebalance(false), and keep no offsets",
        )


def _other_way_error(group: str, present: str, refused: str) -> MessagingError:
    return MessagingError(
        ErrorCode.FORBIDDEN,
        f"consumer group {group!r} has {present} consumers now, and can't have {refused} consumers at the same time: "
        f"stop all {present} consumers of the group first (ternmq group describe lists them); it goes on where they "
        "were",
    )
