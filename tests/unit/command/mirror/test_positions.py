"""Which message of the source is where in the target; a group begins behind messages that it has, and no others."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_command.mirror.positions import RUNS_MAX, Queue, TargetQueue, TopicPositions, choose_target

SOURCES = [Queue("a", "t", 0), Queue("a", "t", 1), Queue("b", "t", 0)]
TARGET = Queue("here", "t", 0)
Entry = tuple[Queue, int] | None
"""A message of the target: where it came from, None for one of the target's own producers."""


def build(entries: list[Entry], first: int) -> TopicPositions:
    positions = TopicPositions()
    for offset, entry in enumerate(entries, first):
        if entry is not None:
            positions.note_copied(TARGET, offset, entry[0], entry[1], [entry[1]])
    return positions


@st.composite
def contents(draw: st.DrawFn) -> list[Entry]:
    """What a mirror leaves in a queue, beside others' messages; it may have left out messages of the source."""
    following = dict.fromkeys(SOURCES, 0)
    entries: list[Entry] = []
    for choice in draw(st.lists(st.integers(0, 4), max_size=40)):
        if choice >= len(SOURCES):
            entries.append(None)
            continue
        source = SOURCES[choice]
        following[source] += draw(st.sampled_from([0, 0, 0, 2]))
        entries.append((source, following[source]))
        following[source] += 1
    return entries


@given(
    entries=contents(),
    first=st.integers(0, 3),
    start=st.integers(0, 50),
    consumed=st.dictionaries(st.sampled_from(SOURCES), st.integers(0, 45)),
)
def test_a_group_is_moved_over_what_it_consumed_and_over_nothing_else(
    entries: list[Entry], first: int, start: int, consumed: dict[Queue, int]
) -> None:
    positions = build(entries, first)
    expected = start
    while first <= expected < first + len(entries):
        entry = entries[expected - first]
        if entry is None or entry[1] >= consumed.get(entry[0], 0):
            break
        expected += 1
    known = positions.queues.get(TARGET, TargetQueue())
    assert known.begin_of_group(start, consumed) == expected
    behind = [
        entry
        for offset, entry in enumerate(entries, first)
        if offset >= start and entry is not None and entry[1] < consumed.get(entry[0], 0)
    ]
    assert known.count_behind(start, consumed) == len(behind)


@given(entries=contents())
def test_a_mirror_goes_on_behind_the_last_copy(entries: list[Entry]) -> None:
    positions = build(entries, 0)
    for source in SOURCES:
        offsets = [entry[1] for entry in entries if entry is not None and entry[0] == source]
        at = positions.sources.get(source)
        assert (None if at is None else at.next_offset) == (offsets[-1] + 1 if offsets else None)
    assert positions.doubles == 0


def test_copies_that_are_there_twice_are_counted() -> None:
    positions = TopicPositions()
    positions.note_copied(TARGET, 0, SOURCES[0], 0, [1, 2, 3])
    positions.note_copied(TARGET, 3, SOURCES[0], 1, [2, 3, 4])
    assert (positions.doubles, positions.sources[SOURCES[0]].next_offset) == (2, 4)
    positions.note_copied(TARGET, 6, SOURCES[0], 0, [1])
    assert (positions.doubles, positions.sources[SOURCES[0]].next_offset) == (3, 4)


def test_a_copy_that_came_again_is_a_gap() -> None:
    positions = TopicPositions()
    positions.note_copied(TARGET, 0, SOURCES[0], 0, [1, 2, 3])
    positions.note_copied(TARGET, 3, SOURCES[0], 1, [2])  # as a dead letter that was sent again
    positions.note_copied(TARGET, 4, SOURCES[0], 3, [4])
    assert positions.queues[TARGET].begin_of_group(0, {SOURCES[0]: 9}) == 3
    assert positions.queues[TARGET].begin_of_group(4, {SOURCES[0]: 9}) == 5


def test_a_message_that_was_stored_later_is_of_a_queue_that_was_made_again() -> None:
    positions = TopicPositions()
    positions.note_copied(TARGET, 0, SOURCES[0], 0, [1, 2, 3])
    positions.note_copied(TARGET, 3, SOURCES[0], 1, [7])
    assert (positions.doubles, positions.sources[SOURCES[0]].next_offset) == (0, 2)
    assert positions.queues[TARGET].begin_of_group(0, {SOURCES[0]: 9}) == 0


def test_what_came_before_a_queue_was_made_again_is_a_gap() -> None:
    positions = TopicPositions()
    positions.note_copied(TARGET, 0, SOURCES[0], 0, [1] * 10)
    positions.begin_again(SOURCES[0], 0)
    positions.note_copied(TARGET, 10, SOURCES[0], 0, [50] * 5)
    assert positions.queues[TARGET].begin_of_group(0, {SOURCES[0]: 5}) == 0
    assert positions.queues[TARGET].begin_of_group(10, {SOURCES[0]: 5}) == 15
    assert positions.sources[SOURCES[0]].next_offset == 5


def test_old_runs_are_forgotten_and_groups_there_stay() -> None:
    known = TargetQueue()
    for number in range(RUNS_MAX + 2):
        known.add(number, 1, SOURCES[number % 2], number // 2)
    assert len(known.runs) < RUNS_MAX
    everything = dict.fromkeys(SOURCES, RUNS_MAX)
    assert known.begin_of_group(0, everything) == 0
    assert known.begin_of_group(known.runs[0].begin, everything) == RUNS_MAX + 2


def test_each_queue_has_its_own_in_the_target_while_there_are_enough() -> None:
    queues = [Queue("here", "t", number) for number in range(8)]
    chosen = [choose_target(Queue(broker, "t", number), ["a", "b"], queues) for broker in "ab" for number in range(4)]
    assert sorted(chosen) == queues
    assert choose_target(Queue("a", "t", 3), ["a"], queues) == queues[3]
    assert choose_target(Queue("a", "t", 9), ["a"], queues) == queues[1]
