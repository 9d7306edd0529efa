"""Plans which topic gets queues on which broker; pure.

Targets     the live brokers that accept messages, except those to be emptied
Added       queues on every target that a topic is not on. Stored messages do not move: new messages are spread over
            more queues, and the others are consumed where they are
FIFO        topics are not changed by default: with more queues a message group goes to another queue, and messages that
            wait in the old one may be consumed after newer ones
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq.admin.brokers import Broker
    from ternmq.admin.topics import Topic


class NoPlan(ValueError):
    """The requested rebalancing is impossible; the text says why."""


@dataclass(frozen=True, slots=True)
class TopicWidening:
    """A topic that gets `queues` message queues on each of the brokers `added`."""

    topic: str
    type: str
    queues: int
    brokers: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """A rebalancing: topics that get queues, and brokers that are `emptied`, which means drained.

    `left` are FIFO topics that stay off some targets. `shares` has for each broker how many queues accept messages
    before and after it.
    """

    widenings: tuple[TopicWidening, ...]
    emptied: tuple[str, ...]
    left: tuple[str, ...]
    shares: dict[str, tuple[int, int]]

    @property
    def is_nothing(self) -> bool:
        return not (self.widenings or self.emptied)


def plan_rebalance(
    brokers: "Sequence[Broker]", topics: "Sequence[Topic]", *, off: Collection[str] = (), fifo: bool
) -> RebalancePlan:
    """Return the plan.

    Raises NoPlan if a broker to be emptied does not exist, if no broker would accept messages, or if a FIFO topic would
    be on none that does.
    """
    known = {broker.name: broker for broker in brokers}
    for name in off:
        if name not in known:
            raise NoPlan(f"there is no broker {name}; there are: {', '.join(sorted(known))}")
    before = sorted(broker.name for broker in brokers if _takes_messages(broker))
    targets = [name for name in before if name not in off]
    if not targets:
        raise NoPlan("no live broker that accepts messages is left")
    widenings = tuple(widening for topic in topics if (widening := _widen_topic(topic, targets)) is not None)
    wanted = tuple(widening for widening in widenings if fifo or widening.type != "fifo")
    left = tuple(widening for widening in widenings if widening not in wanted)
    stranded = [widening.topic for widening in left if not set(widening.brokers) & set(targets)]
    if off and stranded:
        raise NoPlan(
            f"FIFO topics would be on no broker that accepts messages: {', '.join(stranded)}; with --fifo they are "
            "moved, and messages of one group may overtake those that wait on the old broker"
        )
    shares = {name: (_queues_on(name, topics), 0) for name in before}
    widened = {widening.topic: widening.added for widening in wanted}
    for name in targets:
        added = sum(topic.queues for topic in topics if name in widened.get(topic.name, ()))
        shares[name] = (shares[name][0], shares[name][0] + added)
    emptied = tuple(name for name in sorted(set(off)) if not known[name].draining)
    return RebalancePlan(wanted, emptied, tuple(widening.topic for widening in left), shares)


def _takes_messages(broker: "Broker") -> bool:
    return broker.live and not broker.draining and broker.permission in {"read-write", "write"}


def _widen_topic(topic: "Topic", targets: Sequence[str]) -> TopicWidening | None:
    added = tuple(name for name in targets if name not in topic.brokers)
    return TopicWidening(topic.name, topic.type, topic.queues, topic.brokers, added) if added else None


def _queues_on(broker: str, topics: "Sequence[Topic]") -> int:
    return sum(topic.queues for topic in topics if broker in topic.brokers)
