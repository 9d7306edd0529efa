"""When sends are refused after a failed write, what is said of it, and when the disk is probed."""

from ternmq_broker.upkeep.failed_writes import FailedWrites

BROKEN = OSError(5, "Input/output error")


def test_it_is_said_once_and_then_each_minute() -> None:
    writes = FailedWrites(1.0)
    assert writes.note_failure(BROKEN, 0)
    assert writes.problem == "Input/output error"
    assert [now for now in range(1, 125) if writes.note_failed_probe(BROKEN, now)] == [60, 120]
    assert not writes.note_failure(BROKEN, 125), "more appends that fail are no news"


def test_it_is_probed_each_second_until_that_works() -> None:
    writes = FailedWrites(1.0)
    assert not writes.is_probe_due(0)
    writes.note_failure(BROKEN, 0)
    assert [writes.is_probe_due(now) for now in (0.9, 1.0)] == [False, True]
    writes.note_failed_probe(BROKEN, 1.0)
    assert [writes.is_probe_due(now) for now in (1.9, 2.0)] == [False, True]
    writes.note_success(2.0)
    assert (writes.problem, writes.is_probe_due(3.0)) == (None, False)


def test_where_the_probe_works_and_appends_do_not_rounds_become_rare() -> None:
    writes = FailedWrites(1.0)
    now, waits = 0.0, []
    for _ in range(8):
        writes.note_failure(BROKEN, now)
        waits.append(next(wait for wait in range(1, 100) if writes.is_probe_due(now + wait)))
        now += waits[-1]
        writes.note_success(now)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    writes.note_failure(BROKEN, now + 1000)
    assert writes.is_probe_due(now + 1001), "it worked for long meanwhile"
