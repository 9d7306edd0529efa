"""Which topic gets queues on which broker; pure.

Targets     are the brokers that live and take messages, but for those that are to be emptied
Added       are queues on every target that a topic is not on. Nothing that is stored moves: new messages are spread
            over more queues at once, and what a broker has is consumed there
FIFO        topics are left as they are unless asked for: with other queues a message group goes to another one, and
            what waits in the old one may be consumed after it
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq.admin.brokers import Broker
    from ternmq.admin.topics import Topic


class NoPlan(ValueError):
    """What is asked for can't be done; the text says why."""


@dataclass(frozen=True, slots=True)
class Widening:
    """A topic that gets `queues` message queues on each of the brokers `added`."""

    topic: str
    type: str
    queues: int
    brokers: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """`emptied` are the brokers that take nothing new from then on; `left` are FIFO topics that are not on all targets.
    `shares` says for each broker how many queues take new messages before and afterwards."""

    widenings: tuple[Widening, ...]
    emptied: tuple[str, ...]
    left: tuple[str, ...]
    shares: dict[str, tuple[int, int]]

    @property
    def is_nothing(self) -> bool:
        return not (self.widenings or self.emptied)


def plan_of(brokers: "Sequence[Broker]", topics: "Sequence[Topic]", *, off: Collection[str] = (), fifo: bool) -> Plan:
    """NoPlan if a broker to be emptied is not there, if none is left to take messages, or if a FIFO topic would be on
    none that does."""
    known = {broker.name: broker for broker in brokers}
    for name in off:
        if name not in known:
            raise NoPlan(f"there is no broker {name}; there are: {', '.join(sorted(known))}")
    before = sorted(broker.name for broker in brokers if _takes_messages(broker))
    targets = [name for name in before if name not in off]
    if not targets:
        raise NoPlan("no broker is left that lives and takes messages")
    widenings = tuple(widening for topic in topics if (widening := _widening(topic, targets)) is not None)
    wanted = tuple(widening for widening in widenings if fifo or widening.type != "fifo")
    left = tuple(widening for widening in widenings if widening not in wanted)
    stranded = [widening.topic for widening in left if not set(widening.brokers) & set(targets)]
    if off and stranded:
        raise NoPlan(
            f"FIFO topics would be on no broker that takes messages: {', '.join(stranded)}; with --fifo they are "
            "moved, and messages of one group may overtake those that wait on the old broker"
        )
    shares = {name: (_queues_on(name, topics), 0) for name in before}
    widened = {widening.topic: widening.added for widening in wanted}
    for name in targets:
        added = sum(topic.queues for topic in topics if name in widened.get(topic.name, ()))
        shares[name] = (shares[name][0], shares[name][0] + added)
    emptied = tuple(name for name in sorted(set(off)) if not known[name].draining)
    return Plan(wanted, emptied, tuple(widening.topic for widening in left), shares)


def _takes_messages(broker: "Broker") -> bool:
    return broker.live and not broker.draining and broker.permission in {"read-write", "write"}


def _widening(topic: "Topic", targets: Sequence[str]) -> Widening | None:
    added = tuple(name for name in targets if name not in topic.brokers)
    return Widening(topic.name, topic.type, topic.queues, topic.brokers, added) if added else None


def _queues_on(broker: str, topics: "Sequence[Topic]") -> int:
    return sum(topic.queues for topic in topics if broker in topic.brokers)
