"""What a broker's retention does with a store, in one step."""

from ternmq_broker.store.message_store import MessageStore


def remove_segments(store: MessageStore, count: int) -> None:
    """Remove the oldest segments, with their files."""
    removal = store.deletions.prepare_removal(count)
    removal.write()
    store.deletions.finish_removal(removal)
    store.deletions.delete_removed()
