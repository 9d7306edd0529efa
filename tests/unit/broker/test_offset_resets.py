"""Members that keep offsets are sent to where an operator moved their group, and commit nothing else until then."""

from ternmq_broker.delivery.offset_resets import READER_S, RESET_S, OffsetResets

QUEUE = ("readers", "orders", 0)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_reader_is_sent_to_the_new_offset_until_it_reads_from_there() -> None:
    resets = OffsetResets(Clock())
    assert resets.follow_reader(*QUEUE, 10) is None
    assert resets.note_reset(*QUEUE, 3)
    assert resets.is_pending(*QUEUE)
    assert not resets.may_commit(*QUEUE, 10)
    assert resets.may_commit(*QUEUE, 3)
    assert [resets.follow_reader(*QUEUE, 10) for _ in range(2)] == [3, 3]
    assert resets.follow_reader("readers", "orders", 1, 10) is None
    assert resets.follow_reader(*QUEUE, 3) is None
    assert not resets.is_pending(*QUEUE)
    assert resets.may_commit(*QUEUE, 10)


def test_a_reader_that_asks_where_to_begin_knows_it() -> None:
    resets = OffsetResets(Clock())
    resets.follow_reader(*QUEUE, 10)
    resets.note_reset(*QUEUE, 3)
    resets.begin_queue(*QUEUE)
    assert resets.follow_reader(*QUEUE, 10) is None


def test_a_queue_that_nobody_reads_needs_no_memory() -> None:
    clock = Clock()
    resets = OffsetResets(clock)
    assert not resets.note_reset(*QUEUE, 3)
    resets.follow_reader(*QUEUE, 10)
    clock.now += READER_S + 1
    assert not resets.note_reset(*QUEUE, 3)
    assert resets.follow_reader(*QUEUE, 10) is None


def test_the_last_reset_counts_and_none_forever() -> None:
    clock = Clock()
    resets = OffsetResets(clock)
    resets.follow_reader(*QUEUE, 10)
    resets.note_reset(*QUEUE, 3)
    resets.note_reset(*QUEUE, 5)
    assert resets.follow_reader(*QUEUE, 10) == 5
    clock.now += RESET_S
    assert resets.may_commit(*QUEUE, 10)
    assert resets.follow_reader(*QUEUE, 10) is None
    resets.note_reset(*QUEUE, 5)
    resets.forget_group("readers")
    assert not resets.is_pending(*QUEUE)
