"""A leader's store and a follower's against any history: in the end they are the same in all that can be seen."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ternmq_broker.store.copying.log_truncation import truncate_store
from ternmq_broker.store.log.record import RecordKind, RecordOrigin
from ternmq_broker.store.message_store import MessageStore
from tests.support.replica_pair import Follower, Leader, content, log_of, opened, spill, timers

TOPICS = ["orders", "payments", "gone"]
KEYS = ["", "k1", "k2"]


def remove_below(store: MessageStore, log_start: int) -> None:
    """As retention does it, as far as that may be."""
    spill(store)
    if count := store.replica_log.count_removable(log_start):
        removal = store.deletions.prepare_removal(count)
        removal.write()
        store.deletions.finish_removal(removal)
        store.deletions.delete_removed()


class ReplicaMachine(RuleBasedStateMachine):
    """The leader appends everything there is, forgets, purges, rolls, removes, restarts; the follower takes it in
    pieces, loses power, is closed, is cut back; they change places. `acknowledged` is what both have durable, as the
    leader knows it."""

    @initialize(before=st.integers(0, 3))
    def start(self, before: int) -> None:
        self.leader = Leader()
        self.leader.store.deletions.is_replicated = False
        for number in range(before):
            self.leader.append("orders", 0, 2, b"before", "")
            self.leader.store.deletions.forget_topic("orders")() if number else None
        self.leader.store.log.sync_segments()
        self.leader.store.deletions.is_replicated = True
        self.acknowledged = self.leader.store.log.log_end
        self.epoch = 1
        self.version = 0
        self.leader.store.replica_log.begin_epoch(1)()
        self.halves: list[int] = []
        self.timers: list[tuple[int, int]] = []
        self.follower = Follower()
        self.follower.begin(self.leader.store.replica_log.join_state())
        self.limit()

    def limit(self) -> None:
        """Tell both what is acknowledged."""
        leader, follower = self.leader.store, self.follower.store
        in_sync = not follower.replica_log.is_catching_up
        both = min(leader.log.synced, follower.log.synced) if in_sync else leader.log.synced
        self.acknowledged = max(self.acknowledged, both)
        leader.log.vouch_limit = leader.indexes.spill_limit = self.acknowledged
        follower.indexes.spill_limit = max(follower.indexes.spill_limit, min(self.acknowledged, follower.log.log_end))

    # --- the leader

    @rule(
        topic=st.sampled_from(TOPICS),
        queue_id=st.integers(0, 1),
        count=st.integers(1, 6),
        body=st.binary(max_size=300),
        key=st.sampled_from(KEYS),
    )
    def append(self, topic: str, queue_id: int, count: int, body: bytes, key: str) -> None:
        self.leader.append(topic, queue_id, count, body, key)

    @rule(topic=st.sampled_from(TOPICS), due_ms=st.integers(1, 1000))
    def time(self, topic: str, due_ms: int) -> None:
        self.timers.append((self.leader.draft(RecordKind.TIMER, topic, due_ms=due_ms), due_ms))

    @rule(topic=st.sampled_from(TOPICS))
    def begin_transaction(self, topic: str) -> None:
        self.halves.append(self.leader.draft(RecordKind.HALF_MESSAGE, topic))

    @rule(data=st.data(), topic=st.sampled_from(TOPICS))
    def settle(self, data: st.DataObject, topic: str) -> None:
        waiting = sorted(self.leader.store.indexes.halves.waiting)
        if waiting:
            half = data.draw(st.sampled_from(waiting))
            kind = data.draw(st.sampled_from([RecordKind.MESSAGE, RecordKind.OPERATION]))
            self.leader.draft(kind, topic, origin=RecordOrigin(half))
        if self.timers:
            place, due_ms = self.timers.pop(data.draw(st.integers(0, len(self.timers) - 1)))
            kind = data.draw(st.sampled_from([RecordKind.MESSAGE, RecordKind.TOMBSTONE]))
            self.leader.draft(kind, topic, origin=RecordOrigin(place, due_ms))

    @rule(topic=st.sampled_from(TOPICS))
    def forget(self, topic: str) -> None:
        self.version += 1
        self.leader.store.deletions.forget_topic(topic, self.version)()

    @rule(group=st.sampled_from(["g", "h"]))
    def forget_group(self, group: str) -> None:
        self.version += 1
        self.leader.store.deletions.forget_group(group, self.version)

    @rule(topic=st.sampled_from(TOPICS), queue_id=st.integers(0, 1), back=st.integers(0, 4))
    def purge(self, topic: str, queue_id: int, back: int) -> None:
        self.leader.store.deletions.purge_queue(
            topic, queue_id, max(0, self.leader.store.indexes.queues.queue_bounds(topic, queue_id)[1] - back)
        )()

    @rule()
    def sync(self) -> None:
        self.leader.store.log.sync_segments()
        self.limit()

    @rule()
    def spill(self) -> None:
        spill(self.leader.store)

    @rule()
    def roll(self) -> None:
        self.leader.store.log.roll_segment()

    @rule(count=st.integers(1, 2))
    def retain(self, count: int) -> None:
        """Retention, of what no timer or half message waits in any more."""
        store = self.leader.store
        spill(store)
        count = min(count, store.replica_log.count_removable(store.log.log_end))
        if count and all(place >= store.log.segment_end(count) for place in store.indexes.halves.waiting):
            remove_below(store, store.log.segment_end(count))
            self.timers = [timer for timer in self.timers if timer[0] >= store.log.log_start]
            if self.follower.store.log.log_end < store.log.log_start:
                self.follower.begin(store.replica_log.join_state())

    @rule()
    def restart(self) -> None:
        self.leader.store.close()
        self.leader.store = opened(self.leader.folders)
        self.epoch += 1
        self.leader.store.replica_log.begin_epoch(self.epoch)()
        self.limit()

    # --- the follower

    @rule(size=st.integers(1, 700) | st.just(1 << 20))
    def take(self, size: int) -> None:
        self.follower.take(self.leader.store, size)

    @rule()
    def follower_syncs(self) -> None:
        store = self.follower.store
        store.log.sync_segments()
        if store.log.synced >= self.acknowledged and self.leader.store.log.log_end == store.log.log_end:
            store.replica_log.end_catching_up()()
        self.limit()

    @rule()
    def follower_spills(self) -> None:
        spill(self.follower.store)

    @rule()
    def follower_retains(self) -> None:
        remove_below(self.follower.store, self.leader.store.log.log_start)

    @rule()
    def follower_restarts(self) -> None:
        self.follower.store.close()
        self.follower.reopen(self.follower.folders)
        self.limit()

    @rule(data=st.data(), noise=st.binary(max_size=64) | st.integers(0, 600).map(bytes))
    def follower_loses_power(self, data: st.DataObject, noise: bytes) -> None:
        safe = self.follower.store.log.synced
        self.follower.reopen(self.follower.folders.crash(lambda count: data.draw(st.integers(0, count)), noise))
        assert self.follower.store.log.log_end >= safe
        if self.follower.store.log.log_end < self.leader.store.log.log_start:  # what it lost is gone at the leader
            self.follower.begin(self.leader.store.replica_log.join_state())
        self.limit()

    @precondition(lambda self: self.follower.store.log.log_end > self.acknowledged)
    @rule(data=st.data())
    def follower_is_cut_back(self, data: st.DataObject) -> None:
        """As when another leader has less; here the same one goes on."""
        store = self.follower.store
        ends = [store.log.log_start, *self._ends(store.log.log_start)]
        allowed = [end for end in ends if self.acknowledged <= end <= store.log.log_end]
        if not allowed:
            return
        end = data.draw(st.sampled_from(allowed))
        store.log.sync_segments()
        store.close()
        was = self.follower.store.log.log_end
        kept = truncate_store(self.follower.folders, end)
        assert (kept is None) == (end == was)
        self.follower.reopen(self.follower.folders)
        assert self.follower.store.log.log_end == end
        self.limit()

    def _ends(self, start: int) -> list[int]:
        """Where records of the leader end that the follower may have."""
        ends, position = [], start
        position = max(position, self.leader.store.log.log_start)
        while position < self.leader.store.log.log_end:
            position += self.leader.store.log.head_at(position).size
            ends.append(position)
        return ends

    # --- both

    @precondition(lambda self: not self.follower.store.replica_log.is_catching_up)
    @rule(data=st.data(), noise=st.binary(max_size=64), power=st.booleans(), reopened=st.booleans())
    def they_change_places(self, data: st.DataObject, noise: bytes, power: bool, reopened: bool) -> None:
        """The leader dies; the follower, which has all that was acknowledged, leads, and the other one follows it."""
        old, new = self.leader.store, self.follower
        if reopened:
            new.store.close()
            new.reopen(new.folders)
        common = new.store.log.log_end
        if power:
            folders = self.leader.folders.crash(lambda count: data.draw(st.integers(0, count)), noise)
        else:
            old.close()
            folders = self.leader.folders
        opened(folders).close()  # what a start makes of it may be looked at before it is known where to cut
        self.epoch += 1
        new.noted.update(new.store.replica_log.pending_deletions())
        new.store.replica_log.begin_epoch(self.epoch)()
        truncate_store(folders, common)
        named, clock = self.leader.named, self.leader.clock
        self.leader.folders, self.leader.store = new.folders, new.store
        self.leader.named, self.leader.clock = named, clock
        self.leader.store.indexes.spill_limit = self.acknowledged
        self.follower = Follower()
        self.follower.reopen(folders)
        assert self.follower.store.log.log_end <= common
        self.halves = sorted(new.store.indexes.halves.waiting)
        waiting = timers(new.store)
        self.timers = [timer for timer in self.timers if timer[0] in waiting]
        self.follower.catch_up()
        self.limit()

    # --- what is to be so

    @rule()
    def they_become_the_same(self) -> None:
        leader, follower = self.leader.store, self.follower
        # A follower's last segment ends when the leader's next one has a byte, and can go only then.
        self.leader.append("payments", 0, 1, b"", "")
        follower.take_all(leader)
        start = max(leader.log.log_start, follower.store.log.log_start)
        assert b"".join(log_of(follower.store, start).values()) == b"".join(log_of(leader, start).values())
        leader.log.sync_segments()
        follower.store.log.sync_segments()
        follower.store.replica_log.end_catching_up()()
        self.limit()
        remove_below(leader, follower.store.log.log_start)  # of which another leader has removed more
        remove_below(follower.store, leader.log.log_start)
        check_same(follower.store, leader)
        if leader.log.log_start < follower.store.log.log_start:
            return
        for topic in TOPICS:
            for key in [*KEYS[1:], "m1", "m2", "m3"]:
                found = [
                    [record.queue_offset for record in store.reader.find_by_key(topic, key, 100)]
                    for store in (leader, follower.store)
                ]
                assert found[0] == found[1]
        again = opened(follower.folders.crash(lambda count: count, b""))
        check_same(again, leader)

    def teardown(self) -> None:
        if hasattr(self, "follower"):
            self.they_become_the_same()
            self.follower_restarts()
            check_same(self.follower.store, self.leader.store)


def check_same(follower: MessageStore, leader: MessageStore) -> None:
    """All that can be had of both is the same; but a follower that led before may have removed a segment that is part
    of a longer one at the leader, which is kept there until all of it is old."""
    if leader.log.log_start >= follower.log.log_start:
        assert content(follower) == content(leader)
        return
    for queue in follower.indexes.queues.used_queues():
        (first, end), (first_there, end_there) = (
            follower.indexes.queues.queue_bounds(*queue),
            leader.indexes.queues.queue_bounds(*queue),
        )
        assert first_there <= first
        assert end_there == end


ReplicaMachine.TestCase.settings = settings(deadline=None, stateful_step_count=30, max_examples=60)
TestReplicaMachine = ReplicaMachine.TestCase
