"""Topics of which a store has messages that a registry does not know, as when the registry was lost.

Nobody can receive such messages, and a topic that is made again of itself could have fewer queues than it had.
"""

from typing import TYPE_CHECKING

from ternmq_common.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_common.model import HeldTopic, Topic

SHOWN = 5


def is_users(name: str) -> bool:
    """Whether a topic of this name is one that a registry has, not one of the broker's own."""
    return not name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) and not is_system_topic(name)


def unknown_topics(held: "Mapping[str, HeldTopic]", known: "Mapping[str, Topic]") -> "dict[str, HeldTopic]":
    """Those of `held` that are not known, or known with fewer queues than were used, in the order of their names."""
    return {
        name: held[name]
        for name in sorted(held)
        if is_users(name) and (name not in known or known[name].queues < held[name].queues)
    }


def warning_of(unknown: "Mapping[str, HeldTopic]", rebuild: str) -> str:
    """One line; `rebuild` is the command that makes them known."""
    told = [
        f"{name}: {_counted(topic.queues, 'queue')}, {_counted(topic.messages, 'message')}"
        for name, topic in list(unknown.items())[:SHOWN]
    ]
    if len(unknown) > SHOWN:
        told.append(f"{len(unknown) - SHOWN:,} more")
    return (
        f"the store has messages of {_counted(len(unknown), 'topic')} that the registry does not know, or not with all "
        f"queues ({'; '.join(told)}): stop this server, and `{rebuild}` makes them known again"
    )


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
