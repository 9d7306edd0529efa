"""A follower's consumption journal has its leader's lines, and says the same after any history."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.delivery.claims import Claim, ClaimHole, ClaimsDelta, ClaimsSnapshot
from ternmq_broker.store.journal.progress_journal import BadLines, ProgressJournal
from tests.support.memory_disk import MemoryFolder

KEYS = [("g", "t", 0), ("g", "t", 1), ("h", "t", 0), ("h", "u", 0)]


def snapshot(cursor: int) -> ClaimsSnapshot:
    return ClaimsSnapshot(cursor, 1, [ClaimHole(max(0, cursor - 1), 1, Claim(1, 1, 5))])


def delta(cursor: int) -> ClaimsDelta:
    return ClaimsDelta(cursor, 1, [], [])


def write(journal: ProgressJournal, number: int, cursor: int) -> None:
    key = KEYS[number]
    journal.write_progress([(key, snapshot(cursor) if journal.wants_snapshot(key) else delta(cursor))], cursor)


STEPS = st.lists(
    st.tuples(st.just("write"), st.integers(0, 3))
    | st.tuples(st.sampled_from(["drop", "drop topic"]), st.integers(0, 3))
    | st.tuples(st.sampled_from(["send", "reopen", "replace", "crash"]), st.just(0)),
    max_size=40,
)


@given(steps=STEPS, data=st.data())
def test_a_copy_says_what_its_leader_says(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    journal = partial(ProgressJournal, compact_from_bytes=400)
    leader, folder = journal(MemoryFolder()), MemoryFolder()
    copy = journal(folder)
    waiting: list[list[bytes]] = []
    leader.on_written = waiting.append
    for cursor, (step, number) in enumerate([*steps, ("send", 0)], start=1):
        if step == "write":
            write(leader, number, cursor)
        elif step.startswith("drop"):
            group, topic, _ = KEYS[number]
            leader.drop_group(group, None if step == "drop" else topic)
        elif step == "send":
            for lines in waiting:
                copy.append_copied(lines)
            waiting.clear()
        elif step == "replace":
            copy.replace_all(leader.live_lines())
            waiting.clear()
        elif step == "reopen":
            copy = journal(folder)
        else:
            folder = folder.crash(lambda count: data.draw(st.integers(0, count)), b"")
            copy = journal(folder)
    assert copy.live_lines() == leader.live_lines()
    assert {key: copy.wants_snapshot(key) for key in KEYS} == {key: leader.wants_snapshot(key) for key in KEYS}
    assert copy.queue_snapshots() == ProgressJournal(folder).queue_snapshots() == leader.queue_snapshots()


def test_what_is_no_line_refuses_all() -> None:
    leader, folder = ProgressJournal(MemoryFolder()), MemoryFolder()
    write(leader, 0, 1)
    write(leader, 0, 2)
    write(leader, 1, 1)
    copy = ProgressJournal(folder)
    first, second, other = leader.live_lines()
    before = bytes(folder.files["journal"].content)
    for lines in (
        [other, first[:-1]],
        [other, first + second],
        [other, first[:20] + b"x" + first[21:]],
        [other, second],  # its snapshot is missing
        [first, second, second],
        [other, b"\n"],
    ):
        for take in (copy.append_copied, copy.replace_all):
            with pytest.raises(BadLines):
                take(lines)
    assert bytes(folder.files["journal"].content) == before
    assert not copy.queue_snapshots()
    copy.append_copied([first, other])
    copy.append_copied([second])
    assert copy.queue_snapshots() == leader.queue_snapshots()


def test_a_copy_that_was_damaged_is_whole_when_all_was_replaced() -> None:
    leader, folder = ProgressJournal(MemoryFolder()), MemoryFolder()
    for number in range(3):
        write(leader, number, 7)
    copy = ProgressJournal(folder)
    copy.replace_all(leader.live_lines())
    folder.files["journal"].content[100:110] = b"??????????"
    copy = ProgressJournal(folder)
    assert copy.skipped_lines
    assert copy.lost_below
    copy.replace_all(leader.live_lines())
    assert not copy.skipped_lines
    assert not copy.lost_below
    assert not copy.is_in_doubt(KEYS[0])
    again = ProgressJournal(folder)
    assert again.live_lines() == leader.live_lines()


def test_the_loss_of_lines_goes_along() -> None:
    leader, copy = ProgressJournal(MemoryFolder()), ProgressJournal(MemoryFolder())
    leader.lost_below = 77
    write(leader, 0, 1)
    copy.replace_all(leader.live_lines())
    assert copy.lost_below == 77
