"""Rights that several operations need."""

from typing import TYPE_CHECKING

from ternmq_proxy.access.needs import GROUP_SUB, TOPIC_PUB, TOPIC_SUB

if TYPE_CHECKING:
    from ternmq_proxy.access.needs import NamedNeed
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.client_settings import ClientSettings
    from ternmq_proxy.services import Services


def needs_of_consumer(group: str, topic: str) -> "list[NamedNeed]":
    """Return the rights to consume the topic with the group."""
    return [(GROUP_SUB, group), (TOPIC_SUB, topic)]


def needs_of_settings(settings: "ClientSettings") -> "list[NamedNeed]":
    """Return what a user needs whose client has these settings."""
    if not settings.consumes:
        return [(TOPIC_PUB, topic.name) for topic in settings.published_topics]
    return [(GROUP_SUB, settings.group), *((TOPIC_SUB, entry.topic) for entry in settings.subscriptions)]


def require_consumer(call_name: str, call: "Call", group: str, topic: str, services: "Services") -> None:
    """Raise UNAUTHORIZED unless the call's user may consume the topic with the group."""
    for need, name in needs_of_consumer(group, topic):
        services.access.require_right(call_name, call, need, name)
