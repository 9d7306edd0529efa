"""The consumption journal keeps the latest of each queue, through deltas, torn tails and compaction."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.delivery.claims import Claim, Delta, Hole, Snapshot, runs_of
from ternmq_broker.store import progress_journal
from ternmq_broker.store.progress_journal import ProgressJournal
from tests.support.memory_disk import MemoryFolder

NUMBERS = st.integers(0, 2**62)
CLAIMS = st.builds(Claim, st.integers(0, 100), NUMBERS, NUMBERS)
OFFSETS = st.integers(0, 60)
STATES = st.builds(
    lambda cursor, generation, claims: Snapshot(cursor, generation, runs_of(claims.items())),
    NUMBERS,
    NUMBERS,
    st.dictionaries(OFFSETS, CLAIMS, max_size=6),
)
CHANGES = st.tuples(NUMBERS, NUMBERS, st.dictionaries(OFFSETS, CLAIMS, max_size=4), st.sets(OFFSETS, max_size=6))
KEYS = st.tuples(st.sampled_from(["g", "g\n2", "группа"]), st.sampled_from(["t", "u"]), st.integers(0, 2))
WRITES = st.lists(st.lists(st.tuples(KEYS, STATES | CHANGES), max_size=4), max_size=6)
Key = tuple[str, str, int]
Change = tuple[int, int, dict[int, Claim], set[int]]


def claims_of(snapshot: Snapshot) -> dict[int, Claim]:
    return {offset: hole.claim for hole in snapshot.holes for offset in range(hole.first, hole.first + hole.count)}


def changed_by(snapshot: Snapshot, change: Change) -> tuple[Snapshot, Delta]:
    """The state after a change, and the delta that tells of it."""
    cursor, generation, claims, finished = change
    finished = finished - claims.keys()
    after = {offset: claim for offset, claim in claims_of(snapshot).items() if offset not in finished} | claims
    delta = Delta(cursor, generation, runs_of(claims.items()), [(offset, 1) for offset in sorted(finished)])
    return Snapshot(cursor, generation, runs_of(after.items())), delta


@given(writes=WRITES, data=st.data(), noise=st.binary(max_size=40))
def test_what_was_written_is_there_after_a_power_cut(
    writes: list[list[tuple[Key, Snapshot | Change]]], data: st.DataObject, noise: bytes
) -> None:
    folder = MemoryFolder()
    journal = ProgressJournal(folder)
    expected: dict[Key, Snapshot] = {}
    for changed in writes:
        records: list[tuple[Key, Snapshot | Delta]] = []
        for key, change in changed:
            if isinstance(change, Snapshot):
                expected[key] = change
                records.append((key, change))
            else:
                expected[key], delta = changed_by(expected.get(key, Snapshot(0, 0, [])), change)
                records.append((key, delta))
        journal.write(records, 1)
    folder.files["journal"].content += noise.replace(b"\n", b"")
    survivor = folder.crash(lambda count: data.draw(st.integers(0, count)), b"")
    again = ProgressJournal(survivor)
    assert again.snapshots() == expected
    again.write([(("g", "t", 0), Snapshot(7, 7, []))], 1)
    assert ProgressJournal(survivor).snapshots() == expected | {("g", "t", 0): Snapshot(7, 7, [])}


def test_a_dropped_group_stays_dropped() -> None:
    folder = MemoryFolder()
    journal = ProgressJournal(folder)
    journal.write([((group, "t", 0), Snapshot(1, 1, [])) for group in ("stays", "goes")], 1)
    journal.drop("goes")
    assert list(ProgressJournal(folder).snapshots()) == [("stays", "t", 0)]


def test_a_queue_whose_deltas_have_grown_long_wants_a_snapshot() -> None:
    journal = ProgressJournal(MemoryFolder())
    key = ("g", "t", 0)
    assert journal.wants_snapshot(key)
    journal.write([(key, Snapshot(0, 1, []))], 1)
    written = 0
    while not journal.wants_snapshot(key):
        written += 1
        journal.write([(key, Delta(written, 1, [Hole(written, 1, Claim(1, 1, 1))], []))], 1)
    assert 10 < written < 500
    journal.write([(key, Snapshot(written, 1, []))], 1)
    assert not journal.wants_snapshot(key)


def test_compaction_keeps_the_journal_small() -> None:
    folder = MemoryFolder()
    journal = ProgressJournal(folder)
    claim = Claim(1, 1, 1)
    large = [Hole(offset, 1, claim) for offset in range(0, 40_000, 2)]
    for cursor in range(40):
        journal.write([(("g", "t", 0), Snapshot(cursor, 1, large))], 1)
    assert len(folder.files["journal"].content) < 2 * progress_journal._COMPACT_FROM_BYTES
    assert ProgressJournal(folder).snapshots()["g", "t", 0].cursor == 39
