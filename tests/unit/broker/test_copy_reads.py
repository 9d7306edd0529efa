"""What proxies may read of a follower's copy: the same as of its leader, as far as that is acknowledged, or nothing."""

import asyncio
import threading
from pathlib import Path

import pytest

from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.consumption.queue_reader import QueueReader
from ternmq_broker.replication.follower_state import FollowerState, ShardView
from ternmq_broker.replication.timing import ReplicationTiming
from ternmq_broker.server.deletion_notes import DeletionNotes
from ternmq_broker.server.replication.copy_reads import READS_MAX, CopyReads
from ternmq_broker.server.replication.follower_copy import FollowerCopy
from ternmq_broker.server.replication.leader_progress import LeaderProgress
from ternmq_broker.server.replication.replica_files import ReplicaFiles
from ternmq_broker.server.replication.replica_messages import LeaderHeartbeat, LogBytes
from ternmq_broker.store.disk.files import WouldBlock
from ternmq_common.errors import MessagingError
from ternmq_common.filters.message_filter import MessageFilter
from ternmq_common.filters.sql_filter import SqlFilter
from ternmq_common.filters.tag_filter import ALL, TagFilter
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.limits import PULL_BATCH_MAX
from ternmq_common.server_settings import StorageSettings
from ternmq_common.shard.model import NewMessage, PulledMessages, QueueRef
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_runtime.observability.figures import MessageCounts
from tests.support.memory_disk import MemoryFile
from tests.support.replica_pair import Follower, Leader, spill
from tests.support.until import until

TOPIC = "orders"
QUEUE = QueueRef(TOPIC, "broker-0", 0)
COUNT = 60
FILTERS = [
    ALL,
    TagFilter.parse_expression("red"),
    TagFilter.parse_expression("red || blue"),
    SqlFilter.parse_expression("number > 40"),
]
PATIENCE_S = 10.0


def numbered(number: int) -> NewMessage:
    tag = ("red", "green", "blue")[number % 3]
    system = pb.SystemProperties(message_id=f"m{number}", tag=tag).SerializeToString()
    rest = pb.Message(user_properties={"number": str(number)}, body=b"x" * number).SerializeToString()
    return NewMessage(tag_hash(tag), system, rest, (f"m{number}",))


class Pair:
    """A leader with messages, and a follower that has all of them, acknowledged up to `acknowledged`."""

    def __init__(self) -> None:
        self.leader = Leader()
        self.leader.store.replica_log.begin_epoch(1)()
        for number in range(COUNT):
            self.leader.store.writer.append_batch(TOPIC, 0, [numbered(number)], number)
        self.follower = Follower()
        self.follower.begin(self.leader.store.replica_log.join_state())
        self.copy()
        self.acknowledged = self.leader.store.log.log_end
        self.log_start = 0
        self.reads = CopyReads(self.follower.store, lambda: self.acknowledged, lambda: self.log_start)

    def copy(self) -> None:
        """Have the follower take what there is, and keep some of its index on disk."""
        self.leader.store.log.sync_segments()
        self.follower.take_all(self.leader.store)
        self.follower.store.log.sync_segments()
        self.acknowledged = self.follower.store.indexes.spill_limit = self.leader.store.log.log_end
        spill(self.follower.store)

    def of_leader(self, offset: int, passing: MessageFilter, limit: int) -> PulledMessages:
        return QueueReader(self.leader.store, lambda: self.acknowledged).pull_messages(QUEUE, offset, passing, limit)

    async def refusal(self, offset: int) -> str:
        with pytest.raises(MessagingError) as refused:
            await self.reads.pull_messages(QUEUE, offset, ALL, 8)
        assert refused.value.code == pb.HA_NOT_AVAILABLE
        return refused.value.message


@pytest.fixture
def pair() -> Pair:
    return Pair()


async def test_a_follower_answers_as_its_leader_does(pair: Pair) -> None:
    """Each stretch, that before the queue and behind its end included, with filters."""
    for passing in FILTERS:
        for offset in range(-1, COUNT + 2):
            for limit in (1, 7, PULL_BATCH_MAX):
                answer = await pair.reads.pull_messages(QUEUE, offset, passing, limit)
                assert answer == pair.of_leader(offset, passing, limit)
        offset, found = 0, 0
        while (answer := await pair.reads.pull_messages(QUEUE, offset, passing, 7)).next_offset > offset:
            offset, found = answer.next_offset, found + len(answer.messages)
        assert (offset, found) == (COUNT, len(pair.of_leader(0, passing, COUNT).messages))


async def test_a_pull_gets_what_it_asks_for_where_the_index_goes_on_in_another_block(pair: Pair) -> None:
    """Blocks end wherever one was written; here after each few messages."""
    for number in range(COUNT, COUNT + 30):
        pair.leader.store.writer.append_batch(TOPIC, 0, [numbered(number)], number)
        if number % 3 == 0:
            pair.copy()
    pair.copy()
    for offset in range(COUNT + 28):
        for limit in (2, 7):
            answer = await pair.reads.pull_messages(QUEUE, offset, ALL, limit)
            assert len(answer.messages) == min(limit, COUNT + 30 - offset)


async def test_nothing_is_read_that_is_not_acknowledged(pair: Pair) -> None:
    acknowledged = pair.leader.store.log.log_end
    pair.leader.store.writer.append_batch(TOPIC, 0, [numbered(number) for number in range(5)], COUNT)
    pair.copy()
    pair.acknowledged = acknowledged
    answer = await pair.reads.pull_messages(QUEUE, COUNT - 2, ALL, 8)
    assert (len(answer.messages), answer.next_offset) == (2, COUNT)
    assert await pair.reads.pull_messages(QUEUE, COUNT, ALL, 8) == PulledMessages([], COUNT)
    pair.acknowledged = pair.leader.store.log.log_end
    assert (await pair.reads.pull_messages(QUEUE, COUNT, ALL, 8)).next_offset > COUNT


async def test_what_the_leader_deleted_or_purged_is_not_read(pair: Pair) -> None:
    pair.leader.store.deletions.purge_queue(TOPIC, 0, 20)()
    pair.copy()
    assert await pair.reads.pull_messages(QUEUE, 19, ALL, 8) == PulledMessages([], 19)
    assert (await pair.reads.pull_messages(QUEUE, 20, ALL, 8)).next_offset > 20
    pair.leader.store.deletions.forget_topic(TOPIC, 5)()
    pair.copy()
    assert await pair.reads.pull_messages(QUEUE, 20, ALL, 8) == PulledMessages([], 20)
    pair.leader.store.writer.append_batch(TOPIC, 0, [numbered(1)], COUNT)
    pair.copy()
    assert len((await pair.reads.pull_messages(QUEUE, COUNT, ALL, 8)).messages) == 1


async def test_what_the_leaders_log_has_no_more_is_refused(pair: Pair) -> None:
    """The follower removes its segments a little later."""
    answer = await pair.reads.pull_messages(QUEUE, 30, ALL, 1)
    [location] = pair.follower.store.indexes.queues.locate_messages(TOPIC, 0, 30, 1, may_block=True)
    pair.log_start = location.log_offset
    assert await pair.reads.pull_messages(QUEUE, 30, ALL, 1) == answer
    assert "retention" in await pair.refusal(29)


async def test_a_message_that_is_damaged_here_is_the_leaders_to_give(pair: Pair) -> None:
    [location] = pair.follower.store.indexes.queues.locate_messages(TOPIC, 0, 30, 1, may_block=True)
    bases = [int(name) for name in pair.follower.folders.commit_log.files if int(name) <= location.log_offset]
    file = pair.follower.folders.commit_log.files[f"{max(bases):020d}"]
    file.content[location.log_offset + location.size - 1 - max(bases)] ^= 1
    assert "damaged" in await pair.refusal(29)
    assert (await pair.reads.pull_messages(QUEUE, 31, ALL, 1)).next_offset == 32


async def test_nothing_is_read_of_files_that_are_closed_also_not_by_who_waits_for_the_disk(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, began = threading.Event(), 0
    read = MemoryFile.read

    def slow(self: MemoryFile, position: int, size: int, *, may_block: bool = True) -> bytes:
        nonlocal began
        if not may_block:
            raise WouldBlock(self, position, size)
        began += 1
        assert disk.wait(PATIENCE_S)
        return read(self, position, size)

    monkeypatch.setattr(MemoryFile, "read", slow)
    waiting = [asyncio.create_task(pair.refusal(30)) for _ in range(READS_MAX + 3)]
    await until(lambda: began == READS_MAX)
    pair.reads.close()
    disk.set()
    assert all("opened again" in text for text in await asyncio.gather(*waiting))
    assert began == READS_MAX  # who waited for a turn has read nothing
    assert "opened again" in await pair.refusal(30)


async def test_who_comes_when_too_many_wait_is_sent_to_the_leader(pair: Pair) -> None:
    reads = pair.reads
    pair.reads = CopyReads(pair.follower.store, lambda: pair.acknowledged, lambda: pair.log_start, waiting_max=0)
    assert "too many" in await pair.refusal(30)
    assert (await reads.pull_messages(QUEUE, 30, ALL, 1)).next_offset == 31


async def test_a_copy_gives_what_it_holds_and_the_leader_said_to_be_acknowledged_until_it_is_stopped(
    tmp_path: Path,
) -> None:
    leader = Pair().leader.store
    settings = StorageSettings(data_dir=tmp_path)
    files = ReplicaFiles(BrokerSettings.from_storage(settings))
    files.replace_log(leader.replica_log.join_state())
    copy = FollowerCopy(files.opened, settings.flush, DeletionNotes(tmp_path), lambda: None)
    copy.start()
    while copy.wanted_offset < leader.log.log_end:
        base, data = leader.replica_log.log_bytes(copy.wanted_offset, 1 << 20, may_block=True)
        await copy.append_bytes(
            LogBytes(LeaderHeartbeat(1.0, 0, leader.log.log_end, 0), base, copy.wanted_offset, data)
        )
    assert await copy.wait_until_durable() == leader.log.log_end
    assert await copy.reads.pull_messages(QUEUE, 0, ALL, 8) == PulledMessages([], 0)
    [tenth] = leader.indexes.queues.locate_messages(TOPIC, 0, 10, 1, may_block=True)
    copy.note_leader_state(tenth.log_offset, 0)
    assert (await copy.reads.pull_messages(QUEUE, 0, ALL, 32)).next_offset == 10
    copy.note_leader_state(leader.log.log_end + 1000, tenth.log_offset)
    with pytest.raises(MessagingError, match="retention"):
        await copy.reads.pull_messages(QUEUE, 9, ALL, 8)
    assert (await copy.reads.pull_messages(QUEUE, 10, ALL, PULL_BATCH_MAX)).next_offset == COUNT
    await copy.stop()
    with pytest.raises(MessagingError, match="opened again"):
        await copy.reads.pull_messages(QUEUE, 10, ALL, 8)
    files.close()


async def test_what_was_read_of_a_topic_is_counted_until_the_log_says_that_it_was_deleted(tmp_path: Path) -> None:
    leader = Pair().leader.store
    settings = StorageSettings(data_dir=tmp_path)
    files = ReplicaFiles(BrokerSettings.from_storage(settings))
    files.replace_log(leader.replica_log.join_state())
    counts = MessageCounts()
    counts.delivered.add_count(TOPIC, 3)
    copy = FollowerCopy(files.opened, settings.flush, DeletionNotes(tmp_path), lambda: None, counts)
    copy.start()
    leader.deletions.forget_topic(TOPIC, 7)()
    deleted = leader.log.log_end
    leader.writer.append_batch("others", 0, [numbered(1)], COUNT)
    while copy.wanted_offset < leader.log.log_end:
        assert counts.delivered.copy_counts() == {TOPIC: 3}
        size = (deleted if copy.wanted_offset < deleted else leader.log.log_end) - copy.wanted_offset
        base, data = leader.replica_log.log_bytes(copy.wanted_offset, size, may_block=True)
        await copy.append_bytes(
            LogBytes(LeaderHeartbeat(1.0, 0, leader.log.log_end, 0), base, copy.wanted_offset, data)
        )
        copy.note_leader_state(deleted, 0)
    assert counts.delivered.copy_counts() == {}
    await copy.stop()
    files.close()


# --- when a follower gives anything

TIMING = ReplicationTiming(lease_s=6.0, lag_s=1.5)


def seen(epoch: int, *in_sync: str, at_s: float = 10.0) -> FollowerState:
    following = FollowerState("b", TIMING, now_s=0.0)
    following.note_view(ShardView(epoch=epoch, leader="a", leader_live=True, in_sync=frozenset(in_sync)), at_s)
    return following


def test_a_follower_in_sync_that_keeps_up_with_the_leader_of_now_may_be_read() -> None:
    assert seen(3, "a", "b").why_reads_refused(3, 1.0, 11.0) is None


def test_any_other_may_not() -> None:
    assert FollowerState("b", TIMING, now_s=0.0).why_reads_refused(0, 0.0, 1.0) is not None
    assert seen(3, "a", "c").why_reads_refused(3, 1.0, 11.0) is not None
    assert seen(4, "a", "b").why_reads_refused(3, 1.0, 11.0) is not None
    assert seen(3, "a", "b").why_reads_refused(3, 1.6, 11.0) is not None
    assert seen(3, "a", "b").why_reads_refused(3, 1.0, 10.0 + TIMING.lease_s + 1) is not None
    followed = seen(3, "a", "b")
    assert followed.accept_epoch(5)  # the next leader, of which the registry was not heard yet
    assert followed.why_reads_refused(3, 1.0, 11.0) is not None
    assert followed.why_reads_refused(5, 1.0, 11.0) is not None


def test_one_whose_leader_beats_rarely_may_be_read_between_two_beats() -> None:
    slow = FollowerState("b", ReplicationTiming(lease_s=60.0, lag_s=1.5), now_s=0.0)
    slow.note_view(ShardView(epoch=1, leader="a", leader_live=True, in_sync=frozenset("ab")), 10.0)
    assert slow.why_reads_refused(1, 7.0, 20.0) is None


def test_how_long_ago_a_copy_had_everything_grows_while_it_lacks_something_or_hears_nothing() -> None:
    leader_progress = LeaderProgress()
    leader_progress.begin_stream(50.0)
    assert leader_progress.behind_s(50.0) == float("inf")
    leader_progress.note_heartbeat(LeaderHeartbeat(1000.0, 0, 500, 0), 51.0)
    leader_progress.note_held(400)
    assert leader_progress.behind_s(51.0) == float("inf")
    leader_progress.note_held(500)
    assert leader_progress.behind_s(51.0) == 0.0
    assert leader_progress.behind_s(52.5) == 1.5
    leader_progress.note_heartbeat(LeaderHeartbeat(1002.0, 0, 700, 0), 53.0)
    assert leader_progress.behind_s(53.0) == 2.0
    leader_progress.note_held(700)
    assert leader_progress.behind_s(53.0) == 0.0
    leader_progress.begin_stream(60.0)
    assert leader_progress.behind_s(60.0) == float("inf")
