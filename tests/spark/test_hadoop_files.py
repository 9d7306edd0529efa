"""Files of a lake through Hadoop's FileSystem."""

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from pyspark_ternmq.pipelines.hadoop_files import FOOTER_BYTES, HadoopFiles


def test_files_through_hadoop_do_what_the_protocol_says(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(spark)
    root = files.qualify_path(str(tmp_path))
    path = f"{root}/a/topic=%25DLQ%25x/ü 1"
    files.create(path, "text ü")
    assert (files.read(path), files.exists(path), files.exists(f"{root}/b")) == ("text ü", True, False)
    with pytest.raises(FileExistsError):
        files.create(path, "")
    assert [entry.path for entry in files.files_below(root)] == ["a/topic=%25DLQ%25x/ü 1"]
    assert (tmp_path / "a/topic=%25DLQ%25x/ü 1").read_text() == "text ü"
    files.rename(path, f"{root}/b/c/d")
    assert [(entry.path, entry.size_bytes) for entry in files.files_below(root)] == [("b/c/d", 7)]
    assert files.folders_in(root) == ["a", "b"]
    [marked] = files.files_below(f"{root}/b", with_marks=True)
    assert marked.mark == str((tmp_path / "b/c/d").stat().st_mtime_ns // 1_000_000)
    assert [entry.path for entry in files.files_below(f"{root}/b/c/d")] == [f"{root}/b/c/d"]
    assert files.find_matching(f"{root}/?/[cd]") == [f"{root}/b/c"]
    assert files.find_matching(f"{root}/x*") == []
    assert files.files_below(f"{root}/nowhere") == []
    assert files.folders_in(f"{root}/nowhere") == []
    assert files.modified_ms(f"{root}/b/c/d") == (tmp_path / "b/c/d").stat().st_mtime_ns // 1_000_000
    files.delete(f"{root}/b")
    files.delete(f"{root}/b")
    assert not files.exists(f"{root}/b/c/d")
    with pytest.raises(OSError, match="nowhere"):
        files.rename(f"{root}/nowhere", f"{root}/x")
    with pytest.raises(OSError, match="nowhere"):
        files.read(f"{root}/nowhere")
    with pytest.raises(OSError, match="nowhere"):
        files.modified_ms(f"{root}/nowhere")


def test_rows_are_counted_by_footers(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(spark)
    root = files.qualify_path(str(tmp_path))
    for name, rows in (("many", range(12_345)), ("none", range(0))):
        pyarrow.parquet.write_table(pyarrow.table({"a": list(rows)}), tmp_path / name, row_group_size=5_000)
        assert files.row_count(f"{root}/{name}") == len(rows)
    # A footer that is longer than what is read at first.
    pyarrow.parquet.write_table(pyarrow.table({f"column {number}": [1] for number in range(500)}), tmp_path / "wide")
    assert (files.row_count(f"{root}/wide"), (tmp_path / "wide").stat().st_size > FOOTER_BYTES) == (1, True)
    (tmp_path / "no parquet").write_bytes(b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1")
    (tmp_path / "empty").touch()
    for name in ("no parquet", "empty", "nowhere"):
        with pytest.raises(OSError, match=name):
            files.row_count(f"{root}/{name}")
