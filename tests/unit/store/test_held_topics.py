"""Which topics a store has messages of, whatever was deleted, and after a restart too."""

import pytest

from ternmq_broker.store.message_store import MessageStore
from ternmq_common.shard.model import HeldTopic, NewMessage
from tests.support.memory_disk import MemoryFolders

MESSAGE = NewMessage(0, b"", b"body", ())


def reopened(store: MessageStore, folders: MemoryFolders) -> MessageStore:
    store.close()
    return MessageStore(folders, segment_bytes=10_000)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_topics_are_told_with_their_queues_and_messages(*, is_restarted: bool) -> None:
    folders = MemoryFolders()
    store = MessageStore(folders, segment_bytes=10_000)
    store.writer.append_batch("orders", 0, [MESSAGE] * 3, 1)
    store.writer.append_batch("orders", 5, [MESSAGE], 1)
    store.writer.append_batch("letters", 0, [MESSAGE], 1)
    store.writer.append_batch("gone", 2, [MESSAGE], 1)
    store.writer.append_batch("again", 7, [MESSAGE], 1)
    for topic in ("gone", "again"):
        store.deletions.forget_topic(topic)()
    store.writer.append_batch("again", 1, [MESSAGE] * 2, 1)
    if is_restarted:
        store = reopened(store, folders)
    assert store.indexes.queues.held_topics() == {
        "orders": HeldTopic(6, 4),
        "letters": HeldTopic(1, 1),
        "again": HeldTopic(2, 2),
    }
    store.close()
