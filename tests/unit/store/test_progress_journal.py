"""The consumption journal keeps the latest of each queue, through torn tails and compaction."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.delivery.queue_consumption import Claim, Hole, Snapshot
from ternmq_broker.store import progress_journal
from ternmq_broker.store.progress_journal import ProgressJournal
from tests.support.memory_disk import MemoryFolder

NUMBERS = st.integers(0, 2**62)
CLAIMS = st.builds(Claim, st.integers(0, 100), NUMBERS, NUMBERS)
SNAPSHOTS = st.builds(
    Snapshot, NUMBERS, NUMBERS, st.lists(st.builds(Hole, NUMBERS, st.integers(1, 100), CLAIMS), max_size=3)
)
KEYS = st.tuples(st.sampled_from(["g", "g\n2", "группа"]), st.sampled_from(["t", "u"]), st.integers(0, 2))
WRITES = st.lists(st.lists(st.tuples(KEYS, SNAPSHOTS), max_size=4), max_size=6)


@given(writes=WRITES, data=st.data(), noise=st.binary(max_size=40))
def test_what_was_written_is_there_after_a_power_cut(
    writes: list[list[tuple[tuple[str, str, int], Snapshot]]], data: st.DataObject, noise: bytes
) -> None:
    folder = MemoryFolder()
    journal = ProgressJournal(folder)
    expected: dict[tuple[str, str, int], Snapshot] = {}
    for changed in writes:
        journal.write(changed)
        expected.update(changed)
    folder.files["journal"].content += noise.replace(b"\n", b"")
    survivor = folder.crash(lambda count: data.draw(st.integers(0, count)), b"")
    again = ProgressJournal(survivor)
    assert again.snapshots() == expected
    again.write([(("g", "t", 0), Snapshot(7, 7, []))])
    assert ProgressJournal(survivor).snapshots() == expected | {("g", "t", 0): Snapshot(7, 7, [])}


def test_a_dropped_group_stays_dropped() -> None:
    folder = MemoryFolder()
    journal = ProgressJournal(folder)
    journal.write([((group, "t", 0), Snapshot(1, 1, [])) for group in ("stays", "goes")])
    journal.drop("goes")
    assert list(ProgressJournal(folder).snapshots()) == [("stays", "t", 0)]


def test_compaction_keeps_the_journal_small() -> None:
    folder = MemoryFolder()
    journal = ProgressJournal(folder)
    claim = Claim(1, 1, 1)
    large = [Hole(offset, 1, claim) for offset in range(0, 40_000, 2)]
    for cursor in range(40):
        journal.write([(("g", "t", 0), Snapshot(cursor, 1, large))])
    assert len(folder.files["journal"].content) < 2 * progress_journal._COMPACT_FROM_BYTES
    assert ProgressJournal(folder).snapshots()["g", "t", 0].cursor == 39
