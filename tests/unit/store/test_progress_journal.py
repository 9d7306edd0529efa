"""The consumption journal keeps the latest of each queue, through deltas, torn tails, compaction and damage."""

import json
import logging
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.delivery.claims import Claim, ClaimHole, ClaimsDelta, ClaimsSnapshot, to_holes
from ternmq_broker.store.disk.checked_file import NewerFormat
from ternmq_broker.store.journal import journal_lines, progress_journal
from ternmq_broker.store.journal.journal_marks import LostMark, PurgeMark, mark_of
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from tests.support.memory_disk import MemoryFolder

NUMBERS = st.integers(0, 2**62)
CLAIMS = st.builds(Claim, st.integers(0, 100), NUMBERS, NUMBERS)
OFFSETS = st.integers(0, 60)
STATES = st.builds(
    lambda cursor, generation, claims: ClaimsSnapshot(cursor, generation, to_holes(claims.items())),
    NUMBERS,
    NUMBERS,
    st.dictionaries(OFFSETS, CLAIMS, max_size=6),
)
CHANGES = st.tuples(NUMBERS, NUMBERS, st.dictionaries(OFFSETS, CLAIMS, max_size=4), st.sets(OFFSETS, max_size=6))
KEYS = st.tuples(st.sampled_from(["g", "g\n2", "группа"]), st.sampled_from(["t", "u"]), st.integers(0, 2))
WRITES = st.lists(st.lists(st.tuples(KEYS, STATES | CHANGES), max_size=4), max_size=6)
Key = tuple[str, str, int]
Change = tuple[int, int, dict[int, Claim], set[int]]


def claims_of(snapshot: ClaimsSnapshot) -> dict[int, Claim]:
    return {offset: hole.claim for hole in snapshot.holes for offset in range(hole.first, hole.first + hole.count)}


def changed_by(snapshot: ClaimsSnapshot, change: Change) -> tuple[ClaimsSnapshot, ClaimsDelta]:
    """The state after a change, and the delta that tells of it."""
    cursor, generation, claims, finished = change
    finished = finished - claims.keys()
    after = {offset: claim for offset, claim in claims_of(snapshot).items() if offset not in finished} | claims
    delta = ClaimsDelta(cursor, generation, to_holes(claims.items()), [(offset, 1) for offset in sorted(finished)])
    return ClaimsSnapshot(cursor, generation, to_holes(after.items())), delta


@given(writes=WRITES, data=st.data(), noise=st.binary(max_size=40))
def test_what_was_written_is_there_after_a_power_cut(
    writes: list[list[tuple[Key, ClaimsSnapshot | Change]]], data: st.DataObject, noise: bytes
) -> None:
    folder = MemoryFolder()
    journal = ProgressJournal(folder)
    expected: dict[Key, ClaimsSnapshot] = {}
    for changed in writes:
        records: list[tuple[Key, ClaimsSnapshot | ClaimsDelta]] = []
        for key, change in changed:
            if isinstance(change, ClaimsSnapshot):
                expected[key] = change
                records.append((key, change))
            else:
                expected[key], delta = changed_by(expected.get(key, ClaimsSnapshot(0, 0, [])), change)
                records.append((key, delta))
        journal.write_progress(records, 1)
    folder.files["journal"].content += noise.replace(b"\n", b"")
    survivor = folder.crash(lambda count: data.draw(st.integers(0, count)), b"")
    again = ProgressJournal(survivor)
    assert again.queue_snapshots() == expected
    again.write_progress([(("g", "t", 0), ClaimsSnapshot(7, 7, []))], 1)
    assert ProgressJournal(survivor).queue_snapshots() == expected | {("g", "t", 0): ClaimsSnapshot(7, 7, [])}


def test_a_dropped_group_stays_dropped() -> None:
    folder = MemoryFolder()
    journal = ProgressJournal(folder)
    journal.write_progress([((group, "t", 0), ClaimsSnapshot(1, 1, [])) for group in ("stays", "goes")], 1)
    journal.drop_group("goes")
    assert list(ProgressJournal(folder).queue_snapshots()) == [("stays", "t", 0)]


def test_a_queue_whose_deltas_have_grown_long_wants_a_snapshot() -> None:
    journal = ProgressJournal(MemoryFolder())
    key = ("g", "t", 0)
    assert journal.wants_snapshot(key)
    journal.write_progress([(key, ClaimsSnapshot(0, 1, []))], 1)
    written = 0
    while not journal.wants_snapshot(key):
        written += 1
        journal.write_progress([(key, ClaimsDelta(written, 1, [ClaimHole(written, 1, Claim(1, 1, 1))], []))], 1)
    assert 10 < written < 500
    journal.write_progress([(key, ClaimsSnapshot(written, 1, []))], 1)
    assert not journal.wants_snapshot(key)


def test_compaction_keeps_the_journal_small() -> None:
    folder = MemoryFolder()
    journal = ProgressJournal(folder)
    claim = Claim(1, 1, 1)
    large = [ClaimHole(offset, 1, claim) for offset in range(0, 40_000, 2)]
    for cursor in range(40):
        journal.write_progress([(("g", "t", 0), ClaimsSnapshot(cursor, 1, large))], 1)
    assert len(folder.files["journal"].content) < 2 * progress_journal._COMPACT_FROM_BYTES
    assert ProgressJournal(folder).queue_snapshots()["g", "t", 0].cursor == 39


# --- damage


def unfinished(snapshot: ClaimsSnapshot | None, upto: int) -> set[int]:
    """Which of the offsets below `upto` the group would still get; all when nothing is known of it."""
    if snapshot is None:
        return set(range(upto))
    return {*claims_of(snapshot), *range(snapshot.cursor, upto)} & set(range(upto))


class Group:
    """One group in one queue as a broker writes it: the cursor goes on, claims come and go, an operator resets."""

    def __init__(self) -> None:
        self.state = ClaimsSnapshot(0, 1, [])
        self.is_whole = True
        self.reset_generation = 0

    def advance(self, data: st.DataObject) -> ClaimsSnapshot | ClaimsDelta:
        before, claims = self.state, claims_of(self.state)
        generation = before.generation + 1
        if before.cursor and data.draw(st.integers(0, 7)) == 0:
            self.state = ClaimsSnapshot(data.draw(st.integers(0, before.cursor)), generation, [])
            self.reset_generation = generation
            return self.state
        finished = data.draw(st.sets(st.sampled_from(sorted(claims)))) if claims else set()
        cursor = before.cursor + data.draw(st.integers(0, 6))
        claim = Claim(1, generation, 5000 + cursor)
        new = {offset: claim for offset in range(before.cursor, cursor) if data.draw(st.booleans())}
        after = {offset: known for offset, known in claims.items() if offset not in finished} | new
        self.state = ClaimsSnapshot(cursor, generation, to_holes(after.items()))
        if self.is_whole or data.draw(st.integers(0, 3)) == 0:
            self.is_whole = False
            return self.state
        return ClaimsDelta(cursor, generation, to_holes(new.items()), [(offset, 1) for offset in sorted(finished)])


def written(data: st.DataObject) -> tuple[MemoryFolder, dict[Key, Group]]:
    """A journal of several groups, and where these are."""
    folder = MemoryFolder()
    journal = ProgressJournal(folder)
    groups: dict[Key, Group] = {}
    for now_ms in range(data.draw(st.integers(1, 12), label="writes")):
        changed: list[tuple[Key, ClaimsSnapshot | ClaimsDelta]] = []
        for key in data.draw(st.lists(KEYS, min_size=1, max_size=3, unique=True)):
            group = groups.setdefault(key, Group())
            group.is_whole |= journal.wants_snapshot(key)
            changed.append((key, group.advance(data)))
        journal.write_progress(changed, now_ms)
    return folder, groups


@given(data=st.data())
def test_one_damaged_byte_changes_nothing(data: st.DataObject) -> None:
    folder, groups = written(data)
    content = folder.files["journal"].content
    content[data.draw(st.integers(0, len(content) - 1), label="at")] ^= data.draw(st.integers(1, 255), label="bits")
    damaged = bytes(content)
    journal = ProgressJournal(folder)
    expected = {key: group.state for key, group in groups.items()}
    assert journal.queue_snapshots() == expected
    assert (journal.corrected_lines, journal.skipped_lines, journal.lost_below) == (1, 0, 0)
    assert folder.content("journal.damaged-1") == damaged
    journal.drop_group("nobody")
    again = ProgressJournal(folder)
    assert again.queue_snapshots() == expected
    assert again.corrected_lines == 0


@given(data=st.data(), noise=st.binary(min_size=1, max_size=200) | st.integers(1, 400).map(bytes))
def test_what_is_not_known_to_be_finished_is_never_taken_for_finished(data: st.DataObject, noise: bytes) -> None:
    """Any stretch of the file is overwritten. All that can be forgotten is where an operator put a group, with
    everything that the queue's lines said after it."""
    folder, groups = written(data)
    content = folder.files["journal"].content
    start = data.draw(st.integers(0, len(content) - 1), label="start")
    content[start : start + len(noise)] = noise[: len(content) - start]
    is_torn = not content.endswith(b"\n")
    journal = ProgressJournal(folder)
    found = journal.queue_snapshots()
    for key, group in groups.items():
        known = found.get(key)
        if known is None:
            assert journal.lost_below or is_torn, "a group must not begin at the end of its queue"
            continue
        if not is_torn and not journal.is_in_doubt(key):
            assert known == group.state
        if known.generation >= group.reset_generation:
            assert unfinished(group.state, group.state.cursor) <= unfinished(known, group.state.cursor)


def journal_of(*keys: Key) -> tuple[MemoryFolder, ProgressJournal]:
    folder = MemoryFolder()
    journal = ProgressJournal(folder)
    journal.write_progress([(key, ClaimsSnapshot(100 + key[2], 1, [])) for key in keys], 1)
    return folder, journal


def spoil(folder: MemoryFolder, part: bytes) -> None:
    """More than one byte of the line that has this part."""
    content = folder.files["journal"].content
    at = content.index(part)
    content[at : at + 4] = b"????"


def test_a_line_that_cannot_be_read_costs_no_other_group_its_progress(caplog: pytest.LogCaptureFixture) -> None:
    folder, _ = journal_of(("first", "t", 0), ("second", "t", 0), ("third", "t", 1))
    spoil(folder, b"first")
    damaged = folder.content("journal")
    journal = ProgressJournal(folder)
    assert {key: snapshot.cursor for key, snapshot in journal.queue_snapshots().items()} == {
        ("second", "t", 0): 100,
        ("third", "t", 1): 101,
    }
    assert journal.skipped_lines == 1
    assert journal.lost_below > 0
    assert "consumption journal is damaged: its bytes from" in caplog.text
    assert "kept beside it, as journal.damaged-1" in caplog.text
    assert folder.content("journal.damaged-1") == damaged
    ProgressJournal(folder)
    assert "journal.damaged-2" not in folder.names(), "the same damage is kept once"


def test_that_lines_were_lost_is_remembered_until_it_does_not_matter() -> None:
    folder, _ = journal_of(("first", "t", 0), ("second", "t", 0))
    spoil(folder, b"first")
    journal = ProgressJournal(folder)
    journal.lost_below = 77
    journal.drop_group("nobody")
    again = ProgressJournal(folder)
    assert (again.skipped_lines, again.lost_below) == (0, 77)
    for cursor in range(3):
        again.write_progress([(("second", "t", 0), ClaimsSnapshot(cursor, 1, []))], 1)
    assert ProgressJournal(folder).lost_below == 77


def test_a_group_whose_delta_was_lost_goes_on_from_before(caplog: pytest.LogCaptureFixture) -> None:
    folder, journal = journal_of(("g", "t", 0))
    key = ("g", "t", 0)
    claim = Claim(1, 2, 5000)
    for cursor in (110, 120, 130):
        journal.write_progress([(key, ClaimsDelta(cursor, cursor, [ClaimHole(cursor - 1, 1, claim)], []))], 1)
    spoil(folder, b"120,120")
    journal = ProgressJournal(folder)
    assert journal.queue_snapshots()[key] == ClaimsSnapshot(110, 110, [ClaimHole(109, 1, claim)])
    assert "what group g did last in queue 0 of topic t is not known" in caplog.text
    assert "at offset 110" in caplog.text
    assert journal.wants_snapshot(key)


def test_a_group_whose_snapshot_was_lost_goes_on_from_the_beginning() -> None:
    folder, journal = journal_of(("g", "t", 0))
    key = ("g", "t", 0)
    journal.write_progress([(key, ClaimsSnapshot(50, 7, []))], 1)
    journal.write_progress([(key, ClaimsDelta(60, 8, [], []))], 1)
    spoil(folder, b",50,7,")
    assert ProgressJournal(folder).queue_snapshots() == {key: ClaimsSnapshot(0, 8, [])}


def test_only_so_many_damaged_journals_are_kept() -> None:
    folder, journal = journal_of(("g", "t", 0))
    for number in range(12):
        journal.write_progress([(("g", "t", 0), ClaimsSnapshot(number, 1, []))], 1)
        folder.files["journal"].content[-3] ^= 1
        journal = ProgressJournal(folder)
    assert [name for name in folder.names() if "damaged" in name] == [f"journal.damaged-{n}" for n in range(1, 9)]


def line_of_version_1(fields: list[object]) -> bytes:
    content = json.dumps(fields, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(content), content)


VERSION_1: list[list[object]] = [
    ["g", "t", 0, 100, 5, [[10, 2, 1, 3, 4000]]],
    ["h", "t", 0, 40, 1, []],
    ["gone", "t", 0, 7, 1, []],
    ["g", "t", 0, 120, 6, [[119, 1, 1, 6, 4000]], [[10, 1]]],
    ["gone"],
]


def test_a_journal_of_version_1_is_read_and_written_anew() -> None:
    folder = MemoryFolder()
    folder.replace("journal", b"".join(map(line_of_version_1, VERSION_1)))
    expected = {
        ("g", "t", 0): ClaimsSnapshot(
            120, 6, [ClaimHole(11, 1, Claim(1, 3, 4000)), ClaimHole(119, 1, Claim(1, 6, 4000))]
        ),
        ("h", "t", 0): ClaimsSnapshot(40, 1, []),
    }
    journal = ProgressJournal(folder)
    assert journal.queue_snapshots() == expected
    assert journal.written_ms(("g", "t", 0)) == 0
    journal.write_progress([(("i", "t", 0), ClaimsSnapshot(1, 1, []))], 500)
    assert (folder.content("journal") or b"").splitlines()[0].endswith(b'["ternmq consumption journal",3]')
    assert ProgressJournal(folder).queue_snapshots() == expected | {("i", "t", 0): ClaimsSnapshot(1, 1, [])}
    assert "journal.damaged-1" not in folder.names()


def test_a_damaged_line_of_version_1_costs_no_other_group_its_progress() -> None:
    folder = MemoryFolder()
    lines = list(map(line_of_version_1, VERSION_1))
    lines[1] = lines[1].replace(b'"h"', b'"x"')
    folder.replace("journal", b"".join(lines))
    journal = ProgressJournal(folder)
    # Whether a line of the first group was lost, nothing says in that version.
    assert journal.queue_snapshots() == {("g", "t", 0): ClaimsSnapshot(0, 6, [])}
    assert journal.skipped_lines == 1


@pytest.mark.plain
@pytest.mark.parametrize("fields", [{}, ["g"] * 3, ["g", "t", 0, 1, 1, 1, [1, 2]], ["g", "t", "0", 1, 1, 1, []], [1.5]])
def test_a_whole_line_that_says_nothing_known_is_skipped(fields: list[object]) -> None:
    folder, _ = journal_of(("g", "t", 0))
    line = journal_lines.encode_line(fields)
    folder.files["journal"].content += line
    journal = ProgressJournal(folder)
    assert journal.skipped_lines == 1
    assert journal.queue_snapshots() == {("g", "t", 0): ClaimsSnapshot(100, 1, [])}


def test_a_journal_of_a_newer_version_is_left_alone() -> None:
    folder = MemoryFolder()
    content = journal_lines.encode_line(["ternmq consumption journal", 4]) + b"whatever\n"
    folder.replace("journal", content)
    with pytest.raises(NewerFormat, match="version 4; this one knows up to 3"):
        ProgressJournal(folder)
    assert folder.content("journal") == content


def test_counts_of_losses_and_purges_are_kept_and_copied() -> None:
    folder = MemoryFolder()
    journal, copied = ProgressJournal(folder), ProgressJournal(MemoryFolder())
    journal.on_written = copied.append_copied
    journal.write_progress([], 1, [LostMark("g", "t", 0, 5), LostMark("g", "u", 1, 2), LostMark("h", "t", 0, 1)])
    journal.write_progress(
        [(("g", "t", 0), ClaimsSnapshot(9, 1, []))], 2, [LostMark("g", "t", 0, 7), PurgeMark("t", 0, 9)]
    )
    expected = {LostMark("g", "t", 0, 7), LostMark("g", "u", 1, 2), LostMark("h", "t", 0, 1), PurgeMark("t", 0, 9)}
    again = ProgressJournal(MemoryFolder())
    again.replace_all(journal.live_lines())
    assert (
        set(journal.count_marks())
        == set(ProgressJournal(folder).count_marks())
        == set(copied.count_marks())
        == expected
    )
    assert set(again.count_marks()) == expected
    journal.write_progress([], 3, [PurgeMark("t", 0, 0)])
    journal.drop_group("g", "t")
    journal.drop_group("h")
    assert (
        journal.count_marks()
        == ProgressJournal(folder).count_marks()
        == copied.count_marks()
        == [LostMark("g", "u", 1, 2)]
    )
    again.replace_all([])
    assert again.count_marks() == []


@pytest.mark.parametrize(
    "fields", [["lost", "g", "t", 0, -1], ["lost", "g", "t", 0], ["lost", 1, "t", 0, 1], ["purged", "t", True, 1]]
)
def test_what_only_looks_like_a_count_is_skipped(fields: list[object]) -> None:
    assert mark_of(fields) is None


def test_a_journal_of_version_2_is_read_and_written_anew() -> None:
    folder, _ = journal_of(("g", "t", 0))
    content = folder.files["journal"].content
    lines = bytes(content).splitlines(keepends=True)
    folder.replace("journal", b"".join([journal_lines.encode_line(["ternmq consumption journal", 2]), *lines[1:]]))
    journal = ProgressJournal(folder)
    journal.write_progress([], 5, [LostMark("g", "t", 0, 1)])
    header, *rest = (folder.content("journal") or b"").splitlines(keepends=True)
    assert header == lines[0]
    assert set(lines[1:]) < set(rest)


def test_an_interrupted_write_is_no_damage(caplog: pytest.LogCaptureFixture) -> None:
    folder, _ = journal_of(("g", "t", 0))
    folder.files["journal"].content += journal_lines.encode_line(["g", "t", 0, 200, 1, 1, []])[:20]
    with caplog.at_level(logging.INFO):
        journal = ProgressJournal(folder)
    assert journal.queue_snapshots() == {("g", "t", 0): ClaimsSnapshot(100, 1, [])}
    assert (journal.skipped_lines, journal.corrected_lines) == (0, 0)
    assert "20 bytes are cut off" in caplog.text
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_the_times_of_writes_are_known_after_a_compaction() -> None:
    folder, journal = journal_of(("g", "t", 0), ("h", "t", 0))
    journal.write_progress([(("g", "t", 0), ClaimsSnapshot(1, 1, []))], 900)
    journal.write_progress([(("h", "t", 0), ClaimsSnapshot(1, 1, []))], 300)  # the clock was set back
    journal._compact_file()
    journal = ProgressJournal(folder)
    assert journal.written_ms(("g", "t", 0)) == 900
    assert journal.written_ms(("h", "t", 0)) == 300
    assert journal.written_ms(("never", "seen", 0)) == 300
