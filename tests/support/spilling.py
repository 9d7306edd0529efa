"""Index blocks of a store are written when a test says so."""

from ternmq_broker.store.message_store import MessageStore


def spill_once(store: MessageStore) -> None:
    job = store.checkpoints.prepare_spill(entries_min=1)
    if job is not None:
        job.write()
        store.checkpoints.finish_spill(job)


def spill_all(store: MessageStore) -> None:
    while job := store.checkpoints.prepare_spill(entries_min=1):
        job.write()
        store.checkpoints.finish_spill(job)
