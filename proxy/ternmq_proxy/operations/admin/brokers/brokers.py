"""The brokers of a cluster; the embedded stack's one broker can't be changed."""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.catalog.cluster import BrokerEntry, BrokerLoad, QueuePermission, UnfinishedWork
from ternmq_common.catalog.removal_warning import has_nothing_to_lose, removal_warning
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.access.needs import CLUSTER_GET, CLUSTER_LIST, CLUSTER_UPDATE
from ternmq_proxy.operations.admin.brokers.unfinished_work import find_unfinished_work

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_BROKERS = "brokers"


class RemovedBroker(NamedTuple):
    """The topics that had queues on a broker that was removed, and what was lost with it, None: nothing."""

    topics: list[str]
    lost: BrokerLoad | None


async def list_brokers(call: "Call", services: "Services") -> list[BrokerEntry]:
    """Return all brokers, by name."""
    services.access.require_all("ListBrokers", call, (CLUSTER_LIST, _BROKERS))
    return services.catalog.list_brokers()


async def update_broker(
    name: str,
    call: "Call",
    services: "Services",
    *,
    permission: QueuePermission | int | None = None,
    draining: bool | None = None,
) -> BrokerEntry:
    """Give a broker another permission, have it drained, or let it take messages again; None leaves it as it is.
    BAD_REQUEST for a permission that is a number of none."""
    services.access.require_change("UpdateBroker", call, (CLUSTER_UPDATE, _BROKERS))
    refuse_if_embedded(services)
    await services.catalog.existing_broker(name)
    checked = None if permission is None else check_permission(permission)
    return await services.catalog.set_broker(name, permission=checked, draining=draining)


async def remove_broker(name: str, call: "Call", services: "Services", *, force: bool = False) -> RemovedBroker:
    """Forget a broker; BAD_REQUEST while it would be missed, as far as is known, unless `force`."""
    services.access.require_change("RemoveBroker", call, (CLUSTER_UPDATE, _BROKERS))
    refuse_if_embedded(services)
    await services.catalog.refresh_snapshot()
    broker = await services.catalog.existing_broker(name)
    # While no replica leads, a live one may do so at any time.
    is_at_work = broker.live or any(replica.live for replica in broker.replicas)
    topics = [topic.name for topic in services.catalog.list_topics() if broker.name in topic.brokers]
    if not force:
        if is_at_work:
            await _check_drained(broker, services)
        else:
            _check_was_drained(broker, topics)
    await services.catalog.remove_broker(broker.name, force=force)
    return RemovedBroker(topics, broker.load if force else None)


async def _check_drained(broker: BrokerEntry, services: "Services") -> None:
    if not broker.draining:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"broker {broker.name!r} is at work; drain it first with `ternmq broker drain {broker.name} --wait`",
        )
    unfinished = await find_unfinished_work(broker.name, services)
    if not unfinished.is_nothing:
        messages = sum(backlog.messages for backlog in unfinished.backlogs)
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"broker {broker.name!r} still has {messages} messages that groups have not finished, {unfinished.timers} "
            f"timed messages and {unfinished.transactions} open transactions, which would be lost",
        )


def _check_was_drained(broker: BrokerEntry, topics: list[str]) -> None:
    """The state of a replica that is away."""
    if broker.draining and has_nothing_to_lose(broker.load):
        return
    state = "was not drained to its end" if broker.draining else "was not drained"
    raise MessagingError(
        ErrorCode.BAD_REQUEST,
        f"broker {broker.name!r} is away and {state}: start it again and drain it, or give --force, and lost are "
        f"{removal_warning(topics, broker.load)}",
    )


async def describe_unfinished_work(name: str, call: "Call", services: "Services") -> UnfinishedWork:
    """Return what would be lost with a broker, to groups that were created a moment ago too."""
    services.access.require_all("BrokerRemaining", call, (CLUSTER_GET, _BROKERS))
    await services.catalog.refresh_snapshot()
    broker = await services.catalog.existing_broker(name)
    return await find_unfinished_work(broker.name, services)


def refuse_if_embedded(services: "Services") -> None:
    """BAD_REQUEST unless the brokers are those of a cluster."""
    if services.catalog.is_embedded:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            "this server is its own and only broker, which can't be changed; brokers are those of a cluster "
            "(`ternmq broker`, `ternmq proxy`)",
        )


def check_permission(permission: QueuePermission | int) -> QueuePermission:
    """Return the permission; BAD_REQUEST for a number of none."""
    if isinstance(permission, int):
        raise MessagingError(ErrorCode.BAD_REQUEST, f"permission {permission} is unknown")
    return permission
