"""The way in which a group consumes: it pulls, as remoting clients that keep offsets do, or it pops, as receives do.

A group has one way at a time, since both move one progress: members of the other way are refused until the last member
of this way is gone. A client joins within `joining`; its later calls are not checked again. All processes that serve
the brokers' clients are searched for members. Two clients may join at once at different processes, so each way is held
at the brokers meanwhile, one after the other by their names: the first broker that both reach lets one of them pass.
"""

import contextlib
import enum
import uuid
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.peers.asking import ask_others

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ternmq_common.shard.model import ConsumerGroup
    from ternmq_proxy.services import Services

WAY = "group-way"
# A broker that is away, or older than this call.
_NO_ANSWER = frozenset({ErrorCode.HA_NOT_AVAILABLE, ErrorCode.PROXY_TIMEOUT, ErrorCode.NOT_IMPLEMENTED})


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
    ways, silent = await ask_others(bytes.decode, WAY, group, services)
    if GroupWay.PULLS.value in ways:
        return GroupWay.PULLS
    if silent and await services.messages.pulling_members(group, "", ()):
        return GroupWay.PULLS  # brokers know those of proxies that don't answer
    return GroupWay.POPS if here is GroupWay.POPS or GroupWay.POPS.value in ways else GroupWay.NONE


@contextlib.asynccontextmanager
async def joining(group: str, way: GroupWay, services: "Services") -> "AsyncIterator[None]":
    """Let a client join the group that way, as a member that is noted within this context; FORBIDDEN if the group is
    consumed the other way, or another client is about to do so."""
    await _require_way(group, way, services)  # a client that is refused each time does not block others
    join, held = uuid.uuid4().hex, list[str]()
    try:
        for broker in sorted(each.name for each in services.catalog.list_brokers()):
            held.append(broker)  # the answer may be lost
            await _hold_way(broker, group, way, join, services)
        await _require_way(group, way, services)
        yield
    finally:
        for broker in held:
            with contextlib.suppress(MessagingError):  # it ends by itself then
                await services.messages.consuming.release_way(broker, group, join)


async def join_popping(client_id: str, group: str, user: str, services: "Services") -> None:
    """Let a client that receives join the group; FORBIDDEN as `joining`."""
    async with joining(group, GroupWay.POPS, services):
        services.clients.note_call(client_id, group, user=user, joined=True).popping = group


async def _hold_way(broker: str, group: str, way: GroupWay, join: str, services: "Services") -> None:
    """Hold the way at the broker, if it can be reached; FORBIDDEN if it holds the other way."""
    try:
        is_held = await services.messages.consuming.hold_way(broker, group, way.value, join)
    except MessagingError as error:
        if error.code not in _NO_ANSWER:
            raise
        return
    if not is_held:
        raise _other_way_error(group, way)


async def _require_way(group: str, way: GroupWay, services: "Services") -> None:
    if await _find_way(group, services) not in (GroupWay.NONE, way):
        raise _other_way_error(group, way)


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


def _other_way_error(group: str, way: GroupWay) -> MessagingError:
    present, refused = ("gRPC", "remoting") if way is GroupWay.PULLS else ("remoting", "gRPC")
    return MessagingError(
        ErrorCode.FORBIDDEN,
        f"consumer group {group!r} has {present} consumers now, and can't have {refused} consumers at the same time: "
        f"stop all {present} consumers of the group first (ternmq group describe lists them); it goes on where they "
        "were",
    )
