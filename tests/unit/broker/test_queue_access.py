"""The queue access lock: the rules one by one, then any history against a plain model, then members that contend."""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ternmq_broker.delivery.queue_lock import QUIET_SIGHTINGS, SIGHTING_INTERVAL_MS, QueueLock, ReadGrant, ReadWait

HOLD_MS = 1000


def granted(access: QueueLock, client: str, offset: int, now_ms: int) -> ReadGrant:
    answer = access.request_read(client, offset, now_ms)
    assert isinstance(answer, ReadGrant)
    return answer


def waits(access: QueueLock, client: str, now_ms: int) -> int:
    """When the client, which is not granted a pull, is to ask again."""
    answer = access.request_read(client, 0, now_ms)
    assert isinstance(answer, ReadWait)
    return answer.until_ms


def owned(*, handed_to: int = 0, acknowledged: int = 0) -> QueueLock:
    """A queue that `a` owns since the time 0."""
    access = QueueLock(0, HOLD_MS)
    grant = granted(access, "a", 0, 0)
    assert handed_to == 0 or access.confirm_handed_out(grant, handed_to, 0)
    assert access.commit_offset("a", acknowledged, 0)
    return access


# --- the rules


def test_the_first_that_asks_owns_the_queue_and_starts_at_the_acknowledged_offset() -> None:
    access = QueueLock(5, HOLD_MS)
    assert granted(access, "a", 9, 0).offset == 5
    assert access.owner == "a"


def test_the_owner_reads_where_it_asks() -> None:
    access = owned(handed_to=10)
    assert granted(access, "a", 10, 0).offset == 10
    assert granted(access, "a", 3, 0).offset == 3
    assert granted(access, "a", 70, 0).offset == 70


def test_nobody_else_reads_while_the_owner_has_messages_to_acknowledge() -> None:
    access = owned(handed_to=10, acknowledged=9)
    for now_ms in range(0, HOLD_MS, SIGHTING_INTERVAL_MS):
        assert waits(access, "b", now_ms) == HOLD_MS
    assert access.owner == "a"


def test_three_sightings_of_an_owner_that_acknowledged_all_give_the_queue_to_another() -> None:
    access = owned(handed_to=10, acknowledged=10)
    assert waits(access, "b", 50) == 150
    assert waits(access, "b", 150) == 250
    assert granted(access, "b", 4, 250).offset == 10
    assert access.owner == "b"


def test_sightings_that_follow_too_soon_do_not_count() -> None:
    access = owned(handed_to=10, acknowledged=10)
    for now_ms in range(200):
        assert waits(access, "b", now_ms) == now_ms - now_ms % 100 + 100
    assert granted(access, "b", 10, 200).offset == 10


def test_sightings_of_several_clients_count_together_since_they_are_about_the_owner() -> None:
    access = owned(handed_to=10, acknowledged=10)
    assert waits(access, "b", 0) == 100
    assert waits(access, "c", 100) == 200
    assert granted(access, "b", 10, 200).offset == 10


@pytest.mark.parametrize("offset", [10, 3], ids=["new", "acknowledged before"])
def test_handing_out_restarts_the_count(offset: int) -> None:
    access = owned(handed_to=10, acknowledged=10)
    waits(access, "b", 0)
    waits(access, "b", 100)
    assert access.confirm_handed_out(granted(access, "a", offset, 150), offset + 2, 150)
    if offset == 10:
        assert access.commit_offset("a", 12, 160)
    assert [waits(access, "b", now_ms) for now_ms in (200, 300)] == [300, 400]
    if offset == 10:
        assert granted(access, "b", 10, 400).offset == 12


def test_moving_the_offset_restarts_the_count_and_repeating_it_does_not() -> None:
    access = owned(handed_to=10, acknowledged=10)
    waits(access, "b", 0)
    assert access.commit_offset("a", 11, 10)
    waits(access, "b", 100)
    waits(access, "b", 200)
    assert access.commit_offset("a", 11, 250)
    assert granted(access, "b", 10, 300).offset == 11


def test_an_owner_that_pulls_and_finds_nothing_does_not_keep_the_queue() -> None:
    access = owned(handed_to=10, acknowledged=10)
    for now_ms in (0, 100):
        waits(access, "b", now_ms)
        assert granted(access, "a", 10, now_ms).offset == 10
    assert granted(access, "b", 10, 200).offset == 10


def test_what_was_read_for_an_owner_that_lost_the_queue_meanwhile_does_not_leave() -> None:
    access = owned()
    polling = granted(access, "a", 0, 0)
    for now_ms in (0, 100):
        waits(access, "b", now_ms)
    grant = granted(access, "b", 0, 200)
    assert not access.confirm_handed_out(polling, 3, 210)
    assert access.delivered is None
    assert access.confirm_handed_out(grant, 3, 220)


def test_a_pull_of_an_earlier_ownership_of_the_same_client_is_over_too() -> None:
    access = owned()
    polling = granted(access, "a", 0, 0)
    access.release_client("a")
    assert not access.confirm_handed_out(polling, 3, 0)
    assert access.confirm_handed_out(granted(access, "b", 0, 0), 5, 0)
    assert access.commit_offset("b", 5, 0)
    access.release_client("b")
    assert granted(access, "a", 0, 0).offset == 5
    assert not access.confirm_handed_out(polling, 3, 0)


def test_the_last_owner_waits_by_the_same_rules() -> None:
    access = owned(handed_to=10, acknowledged=10)
    for now_ms in (0, 100):
        waits(access, "b", now_ms)
    assert access.confirm_handed_out(granted(access, "b", 10, 200), 12, 200)
    assert waits(access, "a", 210) == 200 + HOLD_MS
    assert access.commit_offset("b", 12, 300)
    assert [waits(access, "a", now_ms) for now_ms in (300, 400)] == [400, 500]
    assert granted(access, "a", 10, 500).offset == 12


def test_a_silent_owner_loses_the_queue_and_what_it_had_is_handed_out_again() -> None:
    access = owned(handed_to=10, acknowledged=4)
    assert waits(access, "b", HOLD_MS - 1) == HOLD_MS
    assert granted(access, "b", 10, HOLD_MS).offset == 4


def test_a_client_is_told_of_the_end_of_the_hold_timeout_if_that_is_before_the_next_sighting() -> None:
    access = owned(handed_to=10, acknowledged=10)
    assert waits(access, "b", HOLD_MS - 10) == HOLD_MS
    assert granted(access, "b", 10, HOLD_MS).offset == 10


def test_pulls_and_commits_show_that_the_owner_is_there() -> None:
    access = owned(handed_to=10)
    granted(access, "a", 10, 400)
    assert waits(access, "b", 800) == 400 + HOLD_MS
    assert access.commit_offset("a", 0, 900)
    assert waits(access, "b", 1400) == 900 + HOLD_MS
    assert access.confirm_handed_out(granted(access, "a", 10, 1000), 11, 1500)
    assert waits(access, "b", 1501) == 1500 + HOLD_MS


def test_the_late_commit_of_a_deposed_owner_does_not_move_the_offset() -> None:
    access = owned(handed_to=10, acknowledged=4)
    granted(access, "b", 4, HOLD_MS)
    assert not access.commit_offset("a", 10, HOLD_MS)
    assert (access.owner, access.acknowledged) == ("b", 4)


def test_anyone_may_commit_when_nobody_owns_the_queue() -> None:
    access = owned(handed_to=10)
    access.release_client("a")
    assert access.commit_offset("a", 8, 0)
    assert access.commit_offset("b", 7, 0)
    assert granted(access, "c", 0, 0).offset == 7


@pytest.mark.parametrize(
    ("state", "back_to", "ahead_to", "wait_ms"),
    [({"handed_to": 10, "acknowledged": 10}, 2, 4, HOLD_MS), ({"acknowledged": 5}, 0, 7, SIGHTING_INTERVAL_MS)],
    ids=["handed out", "never handed out"],
)
def test_an_owner_that_goes_back_still_has_what_it_was_handed_and_no_more(
    state: dict[str, int], back_to: int, ahead_to: int, wait_ms: int
) -> None:
    access = owned(**state)
    assert access.commit_offset("a", back_to, 0)
    assert waits(access, "b", 0) == wait_ms
    assert access.confirm_handed_out(granted(access, "a", back_to, 0), min(back_to + 3, ahead_to), 0)
    assert access.commit_offset("a", ahead_to, 0)
    assert waits(access, "b", 0) == wait_ms


def test_a_released_queue_is_free_at_once_and_only_the_owner_can_release_it() -> None:
    access = owned(handed_to=10, acknowledged=4)
    access.release_client("b")
    assert access.owner == "a"
    access.release_client("a")
    assert access.next_check_ms(1) == 1
    assert granted(access, "b", 10, 1).offset == 4


def test_an_operator_frees_the_queue_and_late_commits_do_not_undo_that() -> None:
    access = owned(handed_to=10, acknowledged=8)
    access.reset_to(2)
    access.reset_to(3)
    assert access.owner is None
    assert not access.commit_offset("a", 10, 0)
    assert granted(access, "a", 10, 0).offset == 3
    assert access.commit_offset("a", 4, 0)
    access.release_client("a")
    assert access.commit_offset("a", 5, 0)


def test_an_owner_whose_first_answer_got_lost_is_sent_to_the_same_place_again() -> None:
    access = QueueLock(10, HOLD_MS)
    for _ in range(3):
        grant = granted(access, "b", 7, 0)
        assert grant.offset == 10
        assert access.confirm_handed_out(grant, 12, 0)
    assert not access.commit_offset("b", 7, 0)
    assert access.acknowledged == 10
    assert granted(access, "b", 12, 0).offset == 12
    assert granted(access, "b", 7, 0).offset == 7


def test_an_owner_that_asked_for_what_it_is_handed_next_reads_on() -> None:
    access = QueueLock(10, HOLD_MS)
    assert granted(access, "b", 12, 0).offset == 10
    grant = granted(access, "b", 12, 0)
    assert grant.offset == 10
    assert access.confirm_handed_out(grant, 12, 0)
    assert granted(access, "b", 12, 0).offset == 12


def test_an_acknowledgement_brings_the_next_check_forward() -> None:
    access = owned(handed_to=10)
    assert waits(access, "b", 10) == HOLD_MS
    assert access.commit_offset("a", 10, 20)
    assert access.next_check_ms(20) == 20


# --- any history


@dataclass
class Pull:
    """A pull that was granted; its messages have not left yet."""

    client: str
    grant: ReadGrant
    ownership: int


class AccessMachine(RuleBasedStateMachine):
    """Clients pull, commit at any time, fall silent and say good-bye; an operator moves the group."""

    @initialize(acknowledged=st.integers(0, 10))
    def start(self, acknowledged: int) -> None:
        self.access = QueueLock(acknowledged, HOLD_MS)
        self.now = 0
        self.owner: str | None = None
        self.ownership = 0
        self.acknowledged = acknowledged
        self.handed: set[int] = set()  # to the owner
        self.seen = 0
        self.unchanged_since = 0
        self.believed: int | None = None
        self.moved_away: str | None = None
        self.pulls: list[Pull] = []

    def unfinished(self) -> set[int]:
        return {offset for offset in self.handed if offset >= self.acknowledged}

    def is_alive(self) -> bool:
        return self.owner is not None and self.now < self.seen + HOLD_MS

    def changed(self) -> None:
        self.unchanged_since = self.now

    @rule(milliseconds=st.integers(1, 300))
    def time_passes(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule()
    def all_are_silent_for_the_hold_timeout(self) -> None:
        self.now += HOLD_MS

    @rule(client=st.sampled_from("abc"), offset=st.integers(0, 15))
    def a_client_pulls(self, client: str, offset: int) -> None:
        self.ask(client, offset)

    def ask(self, client: str, offset: int) -> ReadGrant | ReadWait:
        answer = self.access.request_read(client, offset, self.now)
        if isinstance(answer, ReadWait):
            assert self.is_alive()
            assert client != self.owner
            assert self.now < answer.until_ms <= self.seen + HOLD_MS
            return answer
        if client == self.owner:
            self.owner_goes_on(offset, answer)
        else:
            self.owner_changes(client, offset, answer)
        self.pulls.append(Pull(client, answer, self.ownership))
        return answer

    def owner_goes_on(self, offset: int, grant: ReadGrant) -> None:
        self.seen = self.now
        is_repeated = offset == self.believed != max(self.handed, default=-2) + 1
        assert grant.offset == (self.acknowledged if is_repeated else offset)
        if not is_repeated:
            self.believed = None

    def owner_changes(self, client: str, offset: int, grant: ReadGrant) -> None:
        if self.is_alive():
            assert not self.unfinished()
            assert self.now >= self.unchanged_since + (QUIET_SIGHTINGS - 1) * SIGHTING_INTERVAL_MS
        assert grant.offset == self.acknowledged
        self.owner, self.moved_away, self.seen = client, None, self.now
        self.believed = None if offset == grant.offset else offset
        self.ownership += 1
        self.handed.clear()
        self.changed()

    @precondition(lambda self: self.pulls)
    @rule(data=st.data(), count=st.integers(1, 4))
    def messages_leave_for_a_pull(self, data: st.DataObject, count: int) -> None:
        pull = self.pulls.pop(data.draw(st.integers(0, len(self.pulls) - 1)))
        first, end = pull.grant.offset, pull.grant.offset + count
        is_current = self.owner == pull.client and self.ownership == pull.ownership
        assert self.access.confirm_handed_out(pull.grant, end, self.now) == is_current
        if is_current:
            self.handed.update(range(first, end))
            self.seen = self.now
            self.changed()

    @rule(client=st.sampled_from("abc"), offset=st.integers(0, 20))
    def a_client_commits(self, client: str, offset: int) -> None:
        self.commit(client, offset)

    @precondition(lambda self: self.is_alive())
    @rule()
    def the_owner_commits_all(self) -> None:
        assert self.owner is not None
        self.commit(self.owner, max(self.handed | {self.acknowledged - 1}) + 1)
        assert not self.unfinished()

    def commit(self, client: str, offset: int) -> None:
        allowed = client == self.owner or (self.owner is None and client != self.moved_away)
        allowed &= self.believed is None or offset >= self.acknowledged
        assert self.access.commit_offset(client, offset, self.now) == allowed
        if allowed:
            if offset != self.acknowledged:
                self.changed()
            self.acknowledged, self.seen, self.believed = offset, self.now, None

    @rule(client=st.sampled_from("abc"))
    def a_client_leaves(self, client: str) -> None:
        self.access.release_client(client)
        if client == self.owner:
            self.owner = self.believed = None

    @rule(offset=st.integers(0, 15))
    def an_operator_resets(self, offset: int) -> None:
        self.access.reset_to(offset)
        self.moved_away = self.owner or self.moved_away
        self.owner = self.believed = None
        self.acknowledged = offset

    @precondition(lambda self: self.owner is not None)
    @rule(offset=st.integers(0, 15))
    def a_client_that_asks_at_the_told_times_gets_the_queue_of_one_that_stopped(self, offset: int) -> None:
        waiting = min(set("abc") - {str(self.owner)})
        for _ in range(QUIET_SIGHTINGS):
            answer = self.ask(waiting, offset)
            if isinstance(answer, ReadGrant):
                break
            self.now = answer.until_ms
        assert self.owner == waiting

    @precondition(lambda self: self.is_alive() and not self.unfinished())
    @rule()
    def an_owner_that_has_finished_but_shows_up_keeps_nobody_waiting(self) -> None:
        owner, waiting = str(self.owner), min(set("abc") - {str(self.owner)})
        for _ in range(QUIET_SIGHTINGS):
            self.ask(owner, self.acknowledged)
            answer = self.ask(waiting, 0)
            if isinstance(answer, ReadGrant):
                return
            assert answer.until_ms <= self.now + SIGHTING_INTERVAL_MS
            self.now = answer.until_ms
        raise AssertionError

    @invariant()
    def owner_and_offsets_are_those_of_the_model(self) -> None:
        assert (self.access.owner, self.access.acknowledged) == (self.owner, self.acknowledged)
        if self.owner is not None:
            assert self.access.delivered == (max(self.handed) + 1 if self.handed else None)
        assert self.access.next_check_ms(self.now) >= self.now


TestAccessMachine = AccessMachine.TestCase


# --- members that contend


class Member:
    """A client as clients are: it reads on where an answer ended, and commits how far it came."""

    def __init__(self, name: str, access: QueueLock) -> None:
        self.name = name
        self.access = access
        self.position = 0
        self.polling: ReadGrant | None = None
        self.received: list[int] = []

    def looks_up_the_offset(self, _now_ms: int) -> None:
        if self.polling is None:
            self.position = self.access.acknowledged

    def pulls(self, now_ms: int) -> None:
        if self.polling is None:
            answer = self.access.request_read(self.name, self.position, now_ms)
            self.polling = answer if isinstance(answer, ReadGrant) else None

    def is_answered(self, now_ms: int) -> None:
        if self.polling is not None and self.access.confirm_handed_out(self.polling, self.polling.offset + 2, now_ms):
            self.position = self.polling.offset + 2
            self.received += range(self.polling.offset, self.position)
        self.polling = None

    def is_answered_in_vain(self, now_ms: int) -> None:
        if self.polling is not None:
            self.access.confirm_handed_out(self.polling, self.polling.offset + 2, now_ms)
        self.polling = None

    def commits(self, now_ms: int) -> None:
        self.access.commit_offset(self.name, self.position, now_ms)


ACTIONS: tuple[Callable[[Member, int], None], ...] = (
    Member.pulls,
    Member.pulls,
    Member.is_answered,
    Member.is_answered,
    Member.is_answered_in_vain,
    Member.commits,
    Member.commits,
    Member.looks_up_the_offset,
)


@given(seed=st.integers(0, 2**32))
def test_no_message_reaches_two_live_members_and_none_is_passed_over(seed: int) -> None:
    # By a generator of its own, since ownership changes only in long histories.
    rng, now_ms, access = random.Random(seed), 0, QueueLock(0, hold_timeout_ms=10**9)
    members = [Member(name, access) for name in "abc"]
    for _ in range(1000):
        now_ms += rng.choice([0, 30, 100, 250])
        rng.choice(ACTIONS)(rng.choice(members), now_ms)
    readers: defaultdict[int, set[str]] = defaultdict(set)
    for member in members:
        for offset in member.received:
            readers[offset].add(member.name)
    assert all(len(names) == 1 for names in readers.values())
    assert set(range(access.acknowledged)) <= readers.keys()
