"""The topics and groups of a run."""

from typing import TYPE_CHECKING

from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.shard.model import ConsumerGroup, Topic
from tests.simulation.running.world import SHARD

if TYPE_CHECKING:
    from ternmq_registry.registry import Registry

QUEUES = 2
NORMAL, FIFO, DELAY, TRANSACTION, LITE = "orders", "steps", "reminders", "payments", "chats"
GROUPS = {"readers": NORMAL, "walkers": FIFO, "waiters": DELAY, "payers": TRANSACTION, "chatters": LITE}
MESSAGE_GROUPS = ("a", "b", "c")
LITE_NAMES = ("x", "y", "z")
_TYPES = {
    NORMAL: MessageType.NORMAL,
    FIFO: MessageType.FIFO,
    DELAY: MessageType.DELAY,
    TRANSACTION: MessageType.TRANSACTION,
    LITE: MessageType.LITE,
}


def create_all(registry: "Registry") -> None:
    """Make them in a registry that has the shard."""
    for name, kind in _TYPES.items():
        registry.create_topic(Topic(name=name, type=kind, queues=1 if name == LITE else QUEUES, brokers=(SHARD,)))
    for group, topic in GROUPS.items():
        lite = LiteGroup(bind=LITE) if topic == LITE else None
        registry.create_group(ConsumerGroup(name=group, fifo=topic in (FIFO, LITE), consume_from="earliest", lite=lite))
