"""Topics with messages in a store that a registry does not know, as when the registry was lost.

No consumer can receive such messages, and a topic that is created again by its use could have fewer queues than before.
The topics of timed and half messages are found only by reading them, which would take a start too long: they are
counted when the registry knows no topic at all. Queues of lite topics are no topics of a registry: they count for their
LITE topic.
"""

from typing import TYPE_CHECKING

from ternmq_common.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system_topic, lite_parent
from ternmq_common.shard.model import HeldTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_common.shard.model import Topic

SHOWN = 5


def is_user_topic(name: str) -> bool:
    """Whether a registry may have a topic of this name, or its LITE topic; False for the broker's own topics."""
    return not name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) and not is_system_topic(name)


def unknown_topics(held: "Mapping[str, HeldTopic]", known: "Mapping[str, Topic]") -> "dict[str, HeldTopic]":
    """The topics of `held` that are not known, or known with fewer queues than were used, sorted by name."""
    users: dict[str, HeldTopic] = {}
    for name, topic in held.items():
        if is_user_topic(name):
            so_far = users.get(lite_parent(name), HeldTopic(1, 0))
            users[lite_parent(name)] = HeldTopic(max(so_far.queues, topic.queues), so_far.messages + topic.messages)
    return {name: users[name] for name in sorted(users) if name not in known or known[name].queues < users[name].queues}


def warning_of(unknown: "Mapping[str, HeldTopic]", waiting: int, rebuild: str) -> str | None:
    """The warning, one line; None if there is none. `rebuild` is the command that makes topics known.

    `waiting` are messages that are in no queue yet, of unknown topics.
    """
    parts: list[str] = []
    if unknown:
        parts.append(
            f"of {_count_things(len(unknown), 'topic')} that the registry does not know, or not with all queues "
            f"({_list_topics(unknown)})"
        )
    if waiting:
        parts.append(f"of unknown topics that wait for their time or their producer ({waiting:,})")
    if not parts:
        return None
    return f"the store has messages {', and '.join(parts)}: stop this server, and `{rebuild}` makes them known again"


def _list_topics(unknown: "Mapping[str, HeldTopic]") -> str:
    parts = [
        f"{name}: {_count_things(topic.queues, 'queue')}, {_count_things(topic.messages, 'message')}"
        for name, topic in list(unknown.items())[:SHOWN]
    ]
    if len(unknown) > SHOWN:
        parts.append(f"{len(unknown) - SHOWN:,} more")
    return "; ".join(parts)


def _count_things(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
