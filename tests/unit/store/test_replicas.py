"""What a replica's store does by itself: taking bytes, refusing what can't be, beginning as a copy, being cut back."""

import itertools
import struct
from collections.abc import Iterator
from functools import partial
from operator import mul
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.store.copying.copy_start import UnfinishedCopy, begin_copy, wipe_store
from ternmq_broker.store.copying.log_copy import BadCopy
from ternmq_broker.store.copying.log_truncation import truncate_store
from ternmq_broker.store.log.commit_log import NO_LIMIT, CommitLog, name_of_segment
from ternmq_broker.store.log.log_recovery import CommitLogCorrupted
from ternmq_broker.store.log.record import BadRecord, RecordKind
from ternmq_broker.store.log.record_layouts import RecordLayouts
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.catalog.cluster import DeletedKind, RegistryDeletion
from tests.support.faulty_disk import FaultyFolders
from tests.support.memory_disk import MemoryFile, MemoryFolder, MemoryFolders
from tests.support.replica_pair import SEGMENT_BYTES, Follower, Leader, content, log_of, message, opened, spill


def filled(batches: int = 12) -> Leader:
    """A leader with some segments of all kinds of records, all acknowledged."""
    leader = Leader()
    leader.store.replica_log.begin_epoch(1)()
    for number in range(batches):
        leader.append("orders", number % 2, 2, b"x" * 90, "k")
    leader.draft(RecordKind.TIMER, "orders", due_ms=70)
    leader.draft(RecordKind.HALF_MESSAGE, "orders")
    leader.store.log.sync_segments()
    return leader


def following(leader: Leader) -> Follower:
    follower = Follower()
    follower.begin(leader.store.replica_log.join_state())
    return follower


# --- the leader's records


def test_records_vouch_for_no_more_than_all_replicas_have() -> None:
    leader = Leader()
    leader.append("orders", 0, 3, b"", "")
    end = leader.store.log.sync_segments()
    leader.store.log.vouch_limit = 70
    told: list[int] = []
    leader.store.log.on_append = lambda: told.append(leader.store.log.log_end)
    leader.append("orders", 0, 1, b"", "")
    assert told == [leader.store.log.log_end]
    assert leader.store.log.head_at(end).durable_to == 70
    leader.store.log.vouch_limit = NO_LIMIT
    before = leader.store.log.log_end
    leader.store.log.sync_segments()
    leader.append("orders", 0, 1, b"", "")
    assert leader.store.log.head_at(before).durable_to == before


def test_nothing_beside_the_log_speaks_of_what_is_not_acknowledged() -> None:
    leader = filled()
    acknowledged = leader.store.indexes.spill_limit = leader.store.log.segment_end(1)
    leader.store.checkpoints.mark_durable()
    leader.store.close()
    assert leader.folders.root.content("durable") == b""
    again = opened(leader.folders)
    assert again.replayed_records > 0
    assert again.indexes.spill_limit == acknowledged
    assert again.indexes.highest_covered <= acknowledged
    assert not again.replica_log.count_removable(acknowledged - 1)
    assert again.replica_log.count_removable(NO_LIMIT) == 1
    assert again.deletions.expired_segments(1 << 40) == 1


def test_a_store_without_replicas_writes_no_operations_and_no_files() -> None:
    folders = MemoryFolders()
    store = MessageStore(folders, segment_bytes=SEGMENT_BYTES)
    store.writer.append_batch("orders", 0, [message("m")], 1)
    end = store.log.log_end
    store.deletions.forget_topic("orders", 7)()
    store.deletions.forget_group("g", 8)
    store.deletions.purge_queue("orders", 0, 1)()
    assert store.log.log_end == end
    store.close()
    assert sorted(folders.root.files) == ["checkpoint", "durable", "forgotten", "format", "format.copy"]
    assert b"epochs" not in (folders.root.content("checkpoint") or b"")


# --- taking


@given(sizes=st.lists(st.integers(1, 900), min_size=1, max_size=60))
def test_a_copy_has_the_same_segments_however_the_bytes_come(sizes: list[int]) -> None:
    leader = filled(8)
    follower = following(leader)
    for size in itertools.cycle(sizes):
        if not follower.take(leader.store, size):
            break
    assert log_of(follower.store) == log_of(leader.store)
    assert content(follower.store) == content(leader.store)
    assert sorted(follower.folders.commit_log.files) == sorted(leader.folders.commit_log.files)


@given(at=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_a_byte_that_changed_on_the_way_is_refused_and_nowhere_in_the_log(at: float, mask: int) -> None:
    leader = filled(6)
    follower = following(leader)
    base, data = leader.store.replica_log.log_bytes(0, 1 << 20, may_block=True)
    place = int(at * len(data))
    garbled = data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]
    with pytest.raises(BadCopy):
        follower.store.replica_log.append_copied(base, garbled)
    assert follower.store.log.log_end == 0
    follower.store.abandon_files()
    follower.reopen(follower.folders)
    follower.take_all(leader.store)
    assert content(follower.store) == content(leader.store)


def test_bytes_of_another_place_another_log_or_another_segment_are_refused() -> None:
    leader, other = filled(), filled()
    follower = following(leader)
    base, data = leader.store.replica_log.log_bytes(0, 1 << 20, may_block=True)
    following_base, more = leader.store.replica_log.log_bytes(len(data), 1 << 20, may_block=True)
    for wrong_base, wrong in (
        (following_base, more),
        (base, more),
        (base, other.store.replica_log.log_bytes(0, 1 << 20, may_block=True)[1]),
        (base, data[:-1]),
        (base, data + data),
    ):
        with pytest.raises(BadCopy):
            follower.store.replica_log.append_copied(wrong_base, wrong)
        follower.reopen(follower.folders)
    follower.take_all(leader.store)
    with pytest.raises(BadCopy):
        follower.store.replica_log.append_copied(base, data)


def test_an_epoch_that_has_passed_is_refused() -> None:
    leader = filled(1)
    follower = following(leader)
    follower.take_all(leader.store)
    follower.store._operations.epoch_marks.append((9, follower.store.log.log_end - 1))
    leader.store.replica_log.begin_epoch(2)()
    with pytest.raises(BadCopy, match="epoch 2 after epoch 9"):
        follower.take_all(leader.store)


def test_a_full_disk_takes_nothing_and_the_store_goes_on() -> None:
    leader = filled()
    disk = FaultyFolders()
    follower = Follower(disk)
    follower.begin(leader.store.replica_log.join_state())
    disk.faults.full = ("log/",)
    base, data = leader.store.replica_log.log_bytes(0, 1 << 20, may_block=True)
    with pytest.raises(OSError, match="No space"):
        follower.store.replica_log.append_copied(base, data)
    disk.faults.full = ()
    follower.take_all(leader.store)
    assert content(follower.store) == content(leader.store)


def test_damage_that_the_leader_stepped_over_is_copied_as_it_is() -> None:
    leader = filled()
    ends = [0]
    while ends[-1] < leader.store.log.log_end:
        ends.append(ends[-1] + leader.store.log.head_at(ends[-1]).size)
    victim = next(end for end in ends[3:] if end not in leader.store.log.segment_bases)
    leader.store.close()
    base = max(int(name) for name in leader.folders.commit_log.files if int(name) <= victim)
    leader.folders.commit_log.files[f"{base:020d}"].content[victim - base + 70] ^= 0xFF
    for name in list(leader.folders.index.files):
        leader.folders.index.remove(name)
    leader.store = MessageStore(leader.folders, segment_bytes=SEGMENT_BYTES, accept_corruption=True)
    leader.store.deletions.is_replicated = True
    assert leader.store.replica_log.join_state().accepted == [(victim, ends[ends.index(victim) + 1])]
    follower = following(leader)
    for _ in range(200):
        follower.take(leader.store, 47)
        follower.store.log.sync_segments()
        follower.store.replica_log.end_catching_up()()
        follower.store.indexes.spill_limit = follower.store.log.log_end
        spill(follower.store)
        follower.store.close()
        follower.reopen(follower.folders)
    follower.take_all(leader.store)
    assert log_of(follower.store) == log_of(leader.store)
    assert content(follower.store) == content(leader.store)
    follower.reopen(follower.folders)
    assert content(follower.store) == content(leader.store)


# --- operations


def test_deletions_are_given_when_they_are_acknowledged_until_they_are_noted() -> None:
    leader = filled(2)
    leader.store.deletions.forget_topic("orders", 5)()
    leader.store.deletions.forget_topic("%RETRY%g")()
    leader.store.deletions.forget_group("g", 6)
    follower = following(leader)
    follower.take_all(leader.store)
    assert not follower.noted
    both = [RegistryDeletion(5, DeletedKind.TOPIC, "orders"), RegistryDeletion(6, DeletedKind.GROUP, "g")]
    assert follower.store.replica_log.pending_deletions() == both
    follower.store.log.sync_segments()
    follower.store.indexes.spill_limit = follower.store.log.log_end
    follower.store.close()  # nobody has noted anything
    follower.reopen(follower.folders)
    assert follower.store.replayed_records == 0
    leader.append("orders", 0, 1, b"", "")
    follower.take_all(leader.store)
    assert follower.noted == set(both)
    leader.append("orders", 0, 1, b"", "")
    follower.take_all(leader.store)
    assert not follower.store.replica_log.pending_deletions()


def test_messages_behind_a_deletion_are_there_though_only_a_replay_does_it() -> None:
    leader = filled(3)
    leader.store.deletions.forget_topic("orders", 5)
    leader.append("orders", 0, 2, b"later", "")
    leader.store.deletions.purge_queue("orders", 0, leader.store.indexes.queues.queue_bounds("orders", 0)[1] - 1)
    leader.append("orders", 0, 1, b"last", "")
    expected = content(leader.store)
    leader.store.log.sync_segments()
    job = leader.store.checkpoints.prepare_spill(entries_min=1)
    while job:
        job.write()
        leader.store.checkpoints.finish_spill(job)
        job = leader.store.checkpoints.prepare_spill(entries_min=1)
    # Power fails before the checkpoint: index files speak of more than the side files.
    assert content(opened(leader.folders.crash(lambda _: 0, b""))) == expected


@pytest.mark.parametrize("how", ["lost", "damaged"])
@pytest.mark.parametrize("checkpoint", [True, False])
def test_epoch_marks_are_found_again_in_the_log(how: str, *, checkpoint: bool) -> None:
    leader = filled()
    leader.store.replica_log.begin_epoch(4)()
    epochs = leader.store.replica_log.epoch_marks
    assert [epoch for epoch, _ in epochs] == [1, 4]
    leader.store.close()
    root = leader.folders.root
    if how == "lost":
        root.remove("epochs")
    else:
        root.files["epochs"].content[-3] ^= 1
    if not checkpoint:
        root.remove("checkpoint")
    again = opened(leader.folders)
    assert again.replica_log.epoch_marks == epochs
    again.close()
    assert opened(leader.folders).replica_log.epoch_marks == epochs


@pytest.mark.plain
def test_a_mark_that_was_never_durable_is_forgotten() -> None:
    leader = filled(2)
    finish = leader.store.replica_log.begin_epoch(2)
    leader.store.log.sync_segments = lambda: 0  # type: ignore[method-assign]  # the file is written, and the log is not
    finish()
    survivor = opened(leader.folders.crash(lambda _: 0, b""))
    assert [epoch for epoch, _ in survivor.replica_log.epoch_marks] == [1]


# --- power cuts


def pages_lost(leader: Leader, follower: Follower) -> MemoryFolders:
    """A disk on which a later record of the log came through, and one before it did not."""
    follower.take_all(leader.store)
    folders = follower.folders.crash(lambda count: count, b"")
    name = min(name for name in folders.commit_log.files if int(name) > 0)
    folders.commit_log.files[name].content[70:200] = bytes(130)
    return folders


def test_a_replica_that_was_behind_takes_no_torn_tail_for_damage() -> None:
    leader = filled()
    leader.append("orders", 0, 1, b"", "")  # its mark says that all before was durable
    follower = following(leader)
    again = opened(pages_lost(leader, follower))
    assert again.recovery.torn_bytes
    assert again.log.log_end == min(base for base in leader.store.log.segment_bases if base)
    follower.reopen(follower.folders)
    in_sync = following(leader)
    in_sync.store.replica_log.end_catching_up()()
    with pytest.raises(CommitLogCorrupted):
        opened(pages_lost(leader, in_sync))


def test_what_it_knows_itself_to_be_durable_is_damage() -> None:
    leader = filled()
    follower = following(leader)
    follower.take_all(leader.store)
    follower.store.log.sync_segments()
    follower.store.indexes.spill_limit = follower.store.log.log_end
    follower.store.checkpoints.mark_durable()
    with pytest.raises(CommitLogCorrupted):
        opened(pages_lost(leader, follower))


def test_who_begins_an_epoch_believes_its_log_again() -> None:
    leader = filled()
    follower = following(leader)
    follower.take_all(leader.store)
    assert follower.store.replica_log.is_catching_up
    follower.store.replica_log.begin_epoch(8)()
    assert not opened(follower.folders).replica_log.is_catching_up
    assert follower.store.log.synced == follower.store.log.log_end


# --- beginning as a copy


class Died(Exception):
    """The process ends here."""


class DyingFolder(MemoryFolder):
    """A folder whose owner dies at the `left`-th change of any folder that shares the counter."""

    counter: Iterator[int]

    def _step(self) -> None:
        if next(self.counter) <= 0:
            raise Died

    def create(self, name: str, *, reserve_bytes: int = 0) -> MemoryFile:
        self._step()
        return super().create(name, reserve_bytes=reserve_bytes)

    def remove(self, name: str) -> None:
        self._step()
        super().remove(name)

    def replace(self, name: str, content: bytes) -> None:
        self._step()
        super().replace(name, content)

    def sync_names(self) -> None:
        self._step()
        super().sync_names()


def dying(folders: MemoryFolders, steps: int) -> MemoryFolders:
    counter = itertools.count(steps, -1)
    made = []
    for folder in (folders.root, folders.commit_log, folders.index, folders.timers, folders.set_aside):
        wrapped = DyingFolder(folder.files, folder.safe_names)
        wrapped.counter = counter
        made.append(wrapped)
    return MemoryFolders(*made)


def test_a_copy_that_was_not_begun_to_its_end_can_not_be_opened_and_is_begun_again() -> None:
    leader = filled()
    state = leader.store.replica_log.join_state()
    refused = died = 0
    for steps in itertools.count():
        was = filled(3)
        was.store.close()
        disk = dying(was.folders, steps)
        try:
            wipe_store(disk)
            begin_copy(disk, state)
            disk = disk.crash(lambda _: 0, b"")
        except Died:
            died += 1
            disk = disk.crash(lambda _: 0, b"")
            try:
                opened(disk)
            except UnfinishedCopy:
                refused += 1
            wipe_store(disk)
            begin_copy(disk, state)
        follower = Follower()
        follower.reopen(disk)
        follower.take_all(leader.store)
        assert content(follower.store) == content(leader.store)
        if died == steps:  # not this time
            break
    assert refused > 20
    assert refused >= died - 4  # before it began, after it was wiped, when it was done


def test_deletions_of_before_there_were_replicas_are_known_when_the_copy_has_come_so_far() -> None:
    leader = Leader()
    leader.store.deletions.is_replicated = False
    for _ in range(6):
        leader.append("orders", 0, 2, b"x" * 200, "")
    leader.append("gone", 0, 3, b"", "")
    leader.draft(RecordKind.TIMER, "gone", due_ms=9)
    leader.store.deletions.forget_topic("gone")()
    leader.append("gone", 0, 1, b"again", "")
    leader.store.deletions.purge_queue("orders", 0, 7)()
    leader.store.deletions.is_replicated = True
    leader.store.replica_log.begin_epoch(1)()
    follower = following(leader)
    while follower.take(leader.store, 300):
        follower.store.close()
        follower.reopen(follower.folders)
    assert content(follower.store) == content(leader.store)
    follower.store.log.sync_segments()
    follower.store.indexes.spill_limit = follower.store.log.log_end
    follower.store.close()
    follower.reopen(follower.folders)
    assert content(follower.store) == content(leader.store)


# --- being cut back


def test_a_cut_that_was_interrupted_leaves_a_store_that_opens_and_can_be_cut_again() -> None:
    leader = filled(20)
    end = leader.store.log.segment_end(1)
    whole = content(leader.store)
    leader.store.close()  # what is beside the log speaks of all of it
    for steps in itertools.count():
        disk = dying(leader.folders.crash(lambda count: count, b""), steps)
        try:
            truncate_store(disk, end)
        except Died:
            for share in (0, 1):
                survivor = disk.crash(partial(mul, share), b"")
                again = opened(survivor)
                assert again.log.log_end >= end
                if again.log.log_end == leader.store.log.log_end:
                    assert content(again) == whole
                again.abandon_files()
                truncate_store(survivor, end)
                assert opened(survivor).log.log_end == end
        else:
            assert list(disk.set_aside.files) == [f"commitlog-{end:020d}-{leader.store.log.log_end:020d}"]
            assert opened(disk.crash(lambda _: 0, b"")).log.log_end == end
            break
    assert steps > 10


def test_a_cut_store_goes_on_with_another_leader() -> None:
    one = filled(6)
    two = following(one)
    two.take_all(one.store)
    common = one.store.log.log_end
    one.store.indexes.spill_limit = two.store.indexes.spill_limit = common
    one.store.deletions.purge_queue("orders", 0, 3)()
    one.store.deletions.forget_topic("orders", 4)()
    one.append("orders", 1, 4, b"never acknowledged", "")
    one.store.close()
    two.store.replica_log.begin_epoch(2)()
    two.store.writer.append_batch("orders", 0, [message("other")], 99)
    two.store.log.sync_segments()
    name = truncate_store(one.folders, common)
    assert name is not None
    assert name.startswith(f"commitlog-{common:020d}-")
    assert truncate_store(one.folders, common) is None
    back = Follower()
    back.reopen(one.folders)
    back.take_all(two.store)
    assert content(back.store) == content(two.store)
    assert not back.store.replica_log.pending_deletions()


# --- the log


def begun_at(base: int, folder: MemoryFolder) -> CommitLog:
    """An empty log, as that of a copy begins."""
    folder.create(name_of_segment(base)).close()
    return CommitLog(folder, RecordLayouts(7), segment_bytes=100)


def test_an_empty_log_may_begin_anywhere_and_goes_on_there() -> None:
    folder = MemoryFolder()
    log = begun_at(5000, folder)
    assert (log.log_start, log.log_end, log.synced) == (5000, 5000, 5000)
    log.append_copied(5000, b"abc")
    log.append_copied(5003, b"def")
    assert log.sync_segments() == 5006
    assert sorted(folder.files) == [f"{base:020d}" for base in (5000, 5003)]
    assert log.bytes_at(5001, 10) == (5000, b"bc")
    assert log.bytes_at(5003, 2) == (5003, b"de")
    assert log.bytes_at(5006, 10) == (5003, b"")
    with pytest.raises(BadRecord):
        log.bytes_at(4999, 1)
    with pytest.raises(BadRecord):
        log.append_copied(5000, b"x")
    with pytest.raises(BadRecord):
        log.append_copied(4000, b"x")
    log.roll_segment()
    log.append_copied(5003, b"g")  # the leader that is now never rolled there
    assert log.segment_bases == [5000, 5003]


def test_a_log_may_begin_in_the_middle_of_a_segment_of_another_leader() -> None:
    log = begun_at(5000, MemoryFolder())
    log.append_copied(4000, b"abc")
    log.append_copied(4000, b"d")
    log.append_copied(5004, b"e")
    assert log.segment_bases == [5000, 5004]


def test_whole_bytes_are_told_by_headers_alone() -> None:
    leader = filled(2)
    store = following(leader).store
    _, data = leader.store.replica_log.log_bytes(0, 1 << 20, may_block=True)
    (size,) = struct.unpack_from("<I", data, 4)
    assert store.replica_log.whole_bytes(b"") == 0
    assert store.replica_log.whole_bytes(data[: size - 1]) == 0
    assert store.replica_log.whole_bytes(data[: size + 1]) == size
    assert store.replica_log.whole_bytes(data) == len(data)
    forged = struct.pack("<I", 10)
    head = data[:4] + forged + data[8:60]
    with pytest.raises(BadRecord):
        store.replica_log.whole_bytes(
            head + struct.pack("<I", crc32(head) ^ leader.store.replica_log.join_state().key) + data[64:]
        )
    with pytest.raises(BadRecord):
        store.replica_log.whole_bytes(data[1:])


def test_bytes_beyond_where_the_next_segment_begins_belong_to_no_record() -> None:
    """A file that was cut off may come back as long as it was."""
    folders = MemoryFolders()
    store = opened(folders)
    store.writer.append_batch("orders", 0, [message("1", bytes(100))], 1000)
    begin, layouts = store.log.log_start, store.log.layouts
    assert store.log.record_at(begin).queue_offset == 0
    folders.commit_log.create(name_of_segment(store.log.log_end - 1)).close()
    log = CommitLog(folders.commit_log, layouts, segment_bytes=1000)
    with pytest.raises(BadRecord, match="passes the end of its segment"):
        log.record_at(begin)
