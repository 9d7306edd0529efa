"""The lake's files, when the process that writes or compacts them dies after any of its steps."""

import contextlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_ternmq.pipelines.lake.commits import (
    BatchManifest,
    LakeBroken,
    batch_of,
    batch_of_file,
    final_path,
    last_taken_ms,
)
from pyspark_ternmq.pipelines.lake.lock import Locked
from tests.unit.spark.lake_folder import PARTITION, QUERY, ROOT, Killed, Lake, MemoryFiles, rows_of

BATCHES = 6


def steps_of(run: str) -> int:
    """How many steps a whole run takes."""
    files = MemoryFiles()
    files.steps = 1_000_000
    lake = Lake(files)
    lake.write(BATCHES)
    if run == "compact":
        files.steps = 1_000_000
        lake.compact()
    assert files.steps is not None
    return 1_000_000 - files.steps


def test_each_batch_is_there_once() -> None:
    lake = Lake(MemoryFiles())
    lake.write(BATCHES)
    assert lake.rows() == lake.expected(BATCHES)


@pytest.mark.parametrize("step", range(steps_of("write")))
def test_a_writer_that_dies_after_any_step_leaves_a_lake_that_the_next_one_completes(step: int) -> None:
    files = MemoryFiles()
    lake = Lake(files)
    files.steps = step
    with pytest.raises(Killed):
        lake.write(BATCHES)
    files.steps = None
    assert lake.rows() <= lake.expected(BATCHES)
    lake.write(BATCHES)
    assert lake.rows() == lake.expected(BATCHES)
    assert leftovers(files) == []


@pytest.mark.parametrize("step", range(steps_of("compact")))
def test_a_compaction_that_dies_after_any_step_loses_and_doubles_nothing(step: int) -> None:
    files = MemoryFiles()
    lake = Lake(files)
    lake.write(BATCHES)
    files.steps = step
    try:
        lake.compact()
    except Killed:
        assert lake.rows() >= lake.expected(BATCHES)
        if lake.rows() != lake.expected(BATCHES):
            # Rows may be seen twice, and it can be told that they may.
            assert [path for path in files.content if path.startswith(f"{ROOT}/_commits/compact-")]
    files.steps = None
    lake.compact()
    assert lake.rows() == lake.expected(BATCHES)
    assert leftovers(files) == []
    assert len(files.files_below(f"{ROOT}/data")) == 1


@given(
    deaths=st.lists(st.tuples(st.sampled_from(["write", "other", "compact"]), st.integers(0, 60)), max_size=8),
    data=st.data(),
)
def test_two_queries_and_a_compaction_die_at_will(deaths: list[tuple[str, int]], data: st.DataObject) -> None:
    files = MemoryFiles()
    lake, other = Lake(files), Lake(files, query="query-2")
    for what, step in deaths:
        files.steps = step
        until = data.draw(st.integers(1, BATCHES), label="until")
        with contextlib.suppress(Killed):
            if what == "compact":
                lake.compact()
            else:
                (lake if what == "write" else other).write(until)
    files.steps = None
    lake.write(BATCHES)
    other.write(BATCHES)
    lake.compact()
    assert lake.rows() == lake.expected(BATCHES) + other.expected(BATCHES)
    assert leftovers(files) == []


def test_a_batch_that_ended_is_not_written_again_though_spark_forgot_that_it_did() -> None:
    files = MemoryFiles()
    lake = Lake(files)
    lake.write(BATCHES)
    lake.compact()
    lake.next_batch -= 1
    lake.write(BATCHES)
    assert lake.rows() == lake.expected(BATCHES)


def test_manifests_do_not_grow_in_number() -> None:
    files = MemoryFiles()
    Lake(files).write(50)
    assert len(files.files_below(f"{ROOT}/_commits")) == 1


def test_files_of_a_batch_that_is_not_finished_are_not_compacted() -> None:
    lake, manifest = half_moved()
    lake.compact()
    assert lake.files.exists(f"{ROOT}/{manifest.moves[0][1]}")
    lake.write(BATCHES)
    assert lake.rows() == lake.expected(BATCHES)


def test_a_committed_file_that_vanished_is_told() -> None:
    lake, manifest = half_moved()
    lake.files.delete(f"{ROOT}/{manifest.moves[-1][0]}")
    with pytest.raises(LakeBroken, match="was committed"):
        lake.write(BATCHES)


class Register:
    """Implements `LakeTables` as Delta does: a batch is there, or is not."""

    def __init__(self, files: MemoryFiles) -> None:
        self.files, self.batches = files, Counter[int]()

    def register_batch(self, manifest: BatchManifest) -> None:
        assert all(self.files.exists(f"{ROOT}/{new}") for _, new in manifest.moves)
        if manifest.moves and not self.batches[manifest.batch]:
            self.batches[manifest.batch] += 1


@pytest.mark.parametrize("step", range(steps_of("write")))
def test_tables_learn_of_each_batch_when_its_files_are_there(step: int) -> None:
    files = MemoryFiles()
    tables = Register(files)
    lake = Lake(files, tables=tables)
    files.steps = step
    with pytest.raises(Killed):
        lake.write(BATCHES)
    files.steps = None
    lake.write(BATCHES)
    assert tables.batches == Counter(batch for batch in range(BATCHES) if rows_of(QUERY, batch))


def test_a_table_that_refuses_is_asked_again() -> None:
    files = MemoryFiles()
    refusing = Register(files)
    refuse = LakeBroken("not now")

    def register(manifest: BatchManifest) -> None:
        raise refuse

    lake = Lake(files, tables=Mock(register_batch=register))
    with pytest.raises(LakeBroken, match="not now"):
        lake.write(BATCHES)
    again = Lake(files, tables=refusing)
    again.next_batch = lake.next_batch
    again.write(BATCHES)
    assert refusing.batches == Counter(batch for batch in range(BATCHES) if rows_of(QUERY, batch))


def test_the_time_of_the_last_batch_of_all_queries_is_known() -> None:
    files = MemoryFiles()
    assert last_taken_ms(files, ROOT) == 0
    Lake(files).write(BATCHES)
    Lake(files, query="query-2").write(2)
    files.create(f"{ROOT}/_commits/compact-1.json", "{}")
    assert last_taken_ms(files, ROOT) == 1000 + BATCHES - 1


def test_a_manifest_of_a_later_version_is_refused() -> None:
    text = BatchManifest(query=QUERY, batch=1, staging="s", moves=[]).to_json().replace('"version": 2', '"version": 3')
    with pytest.raises(LakeBroken, match="version 3"):
        BatchManifest.from_json(text)


def test_a_manifest_survives_its_text() -> None:
    moves = [("_staging/a", "data/ä")]
    manifest = BatchManifest(query=QUERY, batch=17, staging="s.1", moves=moves, rows={"data": 3}, taken_ms=99)
    assert BatchManifest.from_json(manifest.to_json()) == manifest


def test_what_an_earlier_version_left_is_finished_or_removed() -> None:
    """Staging without a try in its name: batch 0 was committed and not moved, batch 1 was not committed."""
    files, lake = MemoryFiles(), Lake(MemoryFiles(), query=QUERY)
    lake.files, lake.next_batch = files, 5
    (line, kind), *_ = rows_of(QUERY, 5)
    staged = f"_staging/{QUERY}-5/kind={kind}/{PARTITION}/part-0.parquet"
    files.create(f"{ROOT}/{staged}", line)
    files.create(f"{ROOT}/_staging/{QUERY}-6/kind={kind}/{PARTITION}/part-0.parquet", "never")
    files.create(f"{ROOT}/_commits/{QUERY}-6.json.new", "")
    text = {"version": 1, "query": QUERY, "batch": 5, "rows": {kind: 1}, "taken_ms": 7}
    moves = [[staged, f"{kind}/{PARTITION}/{QUERY}-5-00001.zstd.parquet"]]
    files.create(f"{ROOT}/_commits/{QUERY}-5.json", json.dumps({**text, "moves": moves}))
    lake.write(BATCHES)
    assert lake.rows() == Counter([line])
    assert leftovers(files) == []


@pytest.mark.parametrize("lost", ["all", "one", "other"])
def test_a_batch_whose_files_are_not_what_was_counted_is_an_error_and_is_written_again(lost: str) -> None:
    """The first is what another process's `heal` did between the write and the moves: the batch was skipped."""
    files = MemoryFiles()
    lake = Lake(files)
    lake.write(3)
    write = lake.writer

    def writer(batch: int) -> Callable[[str], tuple[Mapping[str, int], int]]:
        def written(folder: str) -> tuple[Mapping[str, int], int]:
            found = write(batch)(folder)
            staged = [path for path in files.content if path.startswith(folder)]
            if lost == "all":
                files.delete(folder)
            elif lost == "one":
                files.delete(staged[0])
            else:
                files.create(f"{folder}/kind=data/{PARTITION}/part-9.parquet", "of another writer")
            return found

        return written

    lake.writer = writer  # type: ignore[method-assign]
    with pytest.raises(LakeBroken, match=r"batch 3 has 2 data [+] 1 late, and its staged files have .*: nothing of it"):
        lake.write(4)
    assert lake.rows() == lake.expected(3)
    lake.writer = write  # type: ignore[method-assign]
    lake.write(BATCHES)
    assert lake.rows() == lake.expected(BATCHES)
    assert leftovers(files) == []


def test_a_second_process_with_the_same_checkpoint_is_refused_and_changes_nothing() -> None:
    files = MemoryFiles()
    lake, second = Lake(files), Lake(files)
    write, seen = lake.writer, []

    def writer(batch: int) -> Callable[[str], tuple[Mapping[str, int], int]]:
        def written(folder: str) -> tuple[Mapping[str, int], int]:
            found = write(batch)(folder)
            before = dict(files.content)
            second.lives = True
            with pytest.raises(Locked, match="process 1 on here works with this checkpoint"):
                second.write(BATCHES)
            assert files.content == before
            seen.append(batch)
            return found

        return written

    lake.writer = writer  # type: ignore[method-assign]
    lake.write(BATCHES)
    assert seen == list(range(BATCHES))
    assert lake.rows() == lake.expected(BATCHES)


def test_names_say_what_a_file_came_with() -> None:
    path = final_path("kind=late/topic=%25DLQ%25a/date=2026-08-01/hour=07/part-0-abc.zstd.parquet", "q-1-17", 3)
    assert path == "late/topic=%25DLQ%25a/date=2026-08-01/hour=07/q-1-17-00003.zstd.parquet"
    assert batch_of_file(path) == "q-1-17"
    assert (batch_of("q-1-17", "q-1"), batch_of("q-1-17", "q"), batch_of("q-1-x", "q-1")) == (17, None, None)


def half_moved() -> tuple[Lake, BatchManifest]:
    """A lake whose process died with one file of batch 3 in place and the others in staging."""
    for step in itertools.count():
        lake = Lake(MemoryFiles())
        lake.write(3)
        lake.files.steps = step
        with pytest.raises(Killed):
            lake.write(4)
        lake.files.steps = None
        if lake.expected(3) < lake.rows() < lake.expected(4):
            return lake, BatchManifest.from_json(lake.files.read(f"{ROOT}/_commits/{QUERY}-3.json"))
    raise AssertionError


def leftovers(files: MemoryFiles) -> list[str]:
    """What is neither a row's nor the last manifest of a query."""
    commits = [entry.path for entry in files.files_below(f"{ROOT}/_commits")]
    unknown = [path for path in commits if not (path.startswith("query-") and path.endswith(".json"))]
    staged = [entry.path for entry in files.files_below(f"{ROOT}/_staging")]
    locks = [path for path in files.content if "lock" in path]
    return [*unknown, *staged, *locks]


def test_the_folders_are_those_of_the_tests() -> None:
    lake = Lake(MemoryFiles())
    lake.write(3)
    names = [entry.path for entry in lake.files.files_below(ROOT) if not entry.path.startswith("_")]
    assert names == [f"data/{PARTITION}/{QUERY}-{batch}-00001.zstd.parquet" for batch in (1, 2)] + [
        f"late/{PARTITION}/{QUERY}-2-00002.zstd.parquet"
    ]
