"""Searches by key in a store: what versions before wrote, what rots, and what goes on meanwhile."""

import logging
import os
from pathlib import Path

import pytest

from ternmq_broker.store.disk.files import DiskFolders
from ternmq_broker.store.log.record import RecordKind
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_common.names import lite_queue_topic
from ternmq_common.shard.model import NewMessage
from ternmq_protos.v2 import definition_pb2
from tests.support.log_order_blocks import make_old
from tests.support.retention import remove_segments
from tests.support.spilling import spill_all

SEGMENT_BYTES = 20_000
LITE = [lite_queue_topic("chats", name) for name in "ab"]


def opened(folder: Path) -> MessageStore:
    return MessageStore(DiskFolders(folder), segment_bytes=SEGMENT_BYTES)


def send(store: MessageStore, numbers: range) -> None:
    for number in numbers:
        keys = [f"k{number % 3}", f"own-{number}"]
        system = definition_pb2.SystemProperties(message_id=f"id-{number}", keys=keys).SerializeToString()
        for topic in ("orders", LITE[number % 2]):
            store.writer.append_batch(
                topic, 0, [NewMessage(0, system, b"%d" % number, (f"id-{number}", *keys))], number + 1
            )
    store.log.sync_segments()


def numbers(store: MessageStore, topic: str, key: str, limit: int = 1000) -> list[int]:
    return [int(record.rest) for record in store.reader.find_by_key(topic, key, limit)]


def check(store: MessageStore, count: int) -> None:
    for topic in ("orders", "chats"):
        assert numbers(store, topic, "k1") == list(range(count - 1, -1, -1))[(count - 2) % 3 :: 3]
        for number in range(count):
            assert numbers(store, topic, f"own-{number}") == numbers(store, topic, f"id-{number}") == [number]
        assert numbers(store, topic, "nothing") == []
    assert numbers(store, "payments", "k1") == []


def filled(folder: Path, count: int = 200) -> MessageStore:
    store = opened(folder)
    for begin in range(0, count, 50):
        send(store, range(begin, begin + 50))
        spill_all(store)
    return store


def test_a_store_of_a_version_before_is_searched_and_goes_on(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.close()
    again = opened(tmp_path)
    make_old(again, tmp_path)
    again.abandon_files()
    old = opened(tmp_path)
    assert old.replayed_records == 0, "the old blocks were taken"
    check(old, 200)
    send(old, range(200, 300))
    check(old, 300)
    spill_all(old)
    check(old, 300)
    old.close()
    check(opened(tmp_path), 300)


def rot_ends(folder: Path, count: int) -> None:
    """Zeros in place of the last bytes of each index file, where keys are."""
    for path in (folder / "index").glob("0*"):
        with path.open("r+b") as file:
            file.seek(-count, os.SEEK_END)
            file.write(bytes(count))


@pytest.mark.parametrize("of_version_before", [False, True])
def test_keys_that_rot_are_said_once_and_what_they_led_to_is_found_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, of_version_before: bool
) -> None:
    filled(tmp_path, 50).close()
    store = opened(tmp_path)
    if of_version_before:
        make_old(store, tmp_path)
        store.abandon_files()
        store = opened(tmp_path)
    rot_ends(tmp_path, 600)
    with caplog.at_level(logging.WARNING):
        check(store, 50)
    said = [record.getMessage() for record in caplog.records]
    assert said
    assert len(said) == len(set(said))
    assert all("searches read the commit log" in each for each in said)
    store.abandon_files()
    check(opened(tmp_path), 50)  # a start makes the damaged part anew


def test_a_message_that_waits_for_its_time_is_not_found_where_keys_rot(tmp_path: Path) -> None:
    store = opened(tmp_path)
    system = definition_pb2.SystemProperties(message_id="late", keys=["k"]).SerializeToString()
    message = NewMessage(0, system, b"1", ("late", "k"))
    store.writer.append_drafts([RecordDraft(RecordKind.TIMER, "orders", 0, message, due_ms=1 << 40)], 1)
    store.writer.append_batch("orders", 0, [message], 2)
    store.log.sync_segments()
    spill_all(store)
    rot_ends(tmp_path, 8)
    assert numbers(store, "orders", "k") == [1]


def test_what_retention_removes_during_a_search_is_passed_over(tmp_path: Path) -> None:
    store = filled(tmp_path)
    steps = 0

    def pause() -> None:
        nonlocal steps
        steps += 1
        if steps == 2:
            store.log.roll_segment()
            spill_all(store)
            remove_segments(store, store.deletions.expired_segments(before_ms=1 << 40))

    assert [int(record.rest) for record in store.reader.find_by_key("orders", "own-0", 10, pause)] == []
    assert store.log.log_start > 0


def test_a_message_with_the_same_key_twice_is_found_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    system = definition_pb2.SystemProperties(message_id="same", keys=["same"]).SerializeToString()
    store.writer.append_batch("orders", 0, [NewMessage(0, system, b"1", ("same", "same"))], 1)
    store.log.sync_segments()
    assert numbers(store, "orders", "same") == [1]
    spill_all(store)
    assert numbers(store, "orders", "same") == [1]


def test_what_a_pause_raises_ends_the_search(tmp_path: Path) -> None:
    store = filled(tmp_path)

    class EndedError(Exception):
        pass

    def end() -> None:
        raise EndedError

    with pytest.raises(EndedError):
        store.reader.find_by_key("orders", "nothing", 1, end)
