"""Topics are created, and their settings changed."""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.clock import now_ms
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_topic_name, group_of_derived
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS
from ternmq_common.shard.model import Topic
from ternmq_proxy.access.needs import TOPIC_CREATE, TOPIC_UPDATE
from ternmq_proxy.operations.admin.brokers.brokers import refuse_if_embedded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


class WantedTopic(NamedTuple):
    """A topic as somebody wants it. `named` has the names of the settings that he gave; the others are defaults, and
    are as they are in a topic that exists. No brokers: on all."""

    topic: Topic
    named: frozenset[str]


async def create_topic(name: str, read: "Callable[[], WantedTopic]", call: "Call", services: "Services") -> bool:
    """Create the topic that `read` returns, on all brokers unless it names some; return whether it is new. One that
    exists with the same settings is fine."""
    services.access.require_change("CreateTopic", call, (TOPIC_CREATE, name))
    if group_of_derived(name) is not None:
        raise MessagingError(ErrorCode.ILLEGAL_TOPIC, f"topic {name!r} is there with its consumer group")
    wanted, named = read()
    check_topic_name(name)
    brokers = await _checked_places(wanted.brokers, services)
    topic = replace(wanted, created_ms=now_ms(), brokers=brokers)
    found, created = await _create(topic, services)
    if settings := _describe_others(named, topic, found):
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"topic {topic.name!r} exists with {settings}; "
            "change it with `ternmq topic update`, or ask for the same settings",
        )
    return created


def _describe_others(named: frozenset[str], topic: Topic, found: Topic) -> str:
    """Describe the existing topic's settings that differ from the request; empty if none do."""
    settings = {"permission": found.permission.value}
    for each in TOPIC_SETTINGS:
        has = getattr(found, each.attribute)
        if each.absence and each.name in named and has != getattr(topic, each.attribute):
            settings[each.name.replace("_", " ")] = each.stored_text(has)
    is_permitted_otherwise = "permission" in named and found.permission != topic.permission
    is_elsewhere = bool(topic.brokers) and found.brokers != topic.brokers
    if len(settings) == 1 and not is_permitted_otherwise and not is_elsewhere:
        return ""
    places = f" on {', '.join(found.brokers)}" if found.brokers else ""
    return ", ".join(f"{name} {value}" for name, value in settings.items()) + places


async def _create(topic: Topic, services: "Services") -> tuple[Topic, bool]:
    """Return the topic, and whether it is new. One that is there is on the brokers of its day, which need not be
    today's."""
    try:
        known = await services.catalog.existing_topic(topic.name)
    except MessagingError as error:
        if error.code != ErrorCode.TOPIC_NOT_FOUND:
            raise
        brokers = topic.brokers or services.catalog.placement_brokers()
        return await services.catalog.create_topic(replace(topic, brokers=brokers))
    settings = {each.attribute: getattr(known, each.attribute) for each in TOPIC_SETTINGS}
    same = replace(topic, brokers=known.brokers, **{**settings, "queues": topic.queues})
    return await services.catalog.create_topic(same)


async def update_topic(
    name: str,
    change: "Callable[[Topic], Topic]",
    call: "Call",
    services: "Services",
    *,
    added_brokers: "Iterable[str]" = (),
    removed_brokers: "Sequence[str]" = (),
) -> Topic:
    """Give a topic the settings that `change` returns of the known ones, add brokers, and take it off others."""
    services.access.require_change("UpdateTopic", call, (TOPIC_UPDATE, name))
    if group_of_derived(name) is not None:
        raise MessagingError(ErrorCode.ILLEGAL_TOPIC, f"topic {name!r} goes with its consumer group")
    check_topic_name(name)
    # Another proxy may have changed it: settings that are not requested must stay as they are now.
    await services.catalog.refresh_snapshot()
    known = services.catalog.find_topic(name)
    topic = change(known)
    added = await _checked_places(added_brokers, services)
    if added or removed_brokers:
        topic = replace(topic, brokers=_changed_brokers(topic, added, removed_brokers, services))
    if topic != known:
        await services.catalog.update_topic(topic)
    return topic


async def _checked_places(names: "Iterable[str]", services: "Services") -> tuple[str, ...]:
    """Return the brokers of these names, each once, that may get queues of a topic; BAD_REQUEST if one may not."""
    places = tuple(sorted(set(names)))
    if places:
        refuse_if_embedded(services)
    for name in places:
        broker = await services.catalog.existing_broker(name)
        if broker.draining:
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"broker {name!r} is draining and takes no topics; see `ternmq broker resume`",
            )
    return places


def _changed_brokers(
    topic: Topic, added: "Iterable[str]", removed: "Iterable[str]", services: "Services"
) -> tuple[str, ...]:
    refuse_if_embedded(services)
    draining = {broker.name for broker in services.catalog.list_brokers() if broker.draining}
    for name in removed:
        if name not in topic.brokers:
            raise MessagingError(ErrorCode.BAD_REQUEST, f"topic {topic.name!r} is not on broker {name!r}")
        if topic.permission.can_write and name not in draining:
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"messages of topic {topic.name!r} are being sent to broker {name!r}; drain it, or make the topic "
                "read-only first, and have consumers take what is there",
            )
    left = (set(topic.brokers) | set(added)) - set(removed)
    if not left:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"topic {topic.name!r} would be on no broker; delete it instead")
    return tuple(sorted(left))
