"""Files of a lake through Hadoop's FileSystem."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_ternmq.pipelines.hadoop_files import HadoopFiles


def test_files_through_hadoop_do_what_the_protocol_says(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(spark)
    root = files.qualified(str(tmp_path))
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
    assert files.files_below(f"{root}/nowhere") == []
    assert files.folders_in(f"{root}/nowhere") == []
    before_ms = files.modified_ms(f"{root}/b/c/d")
    files.touch(f"{root}/b/c/d")
    assert files.modified_ms(f"{root}/b/c/d") >= before_ms
    files.delete(f"{root}/b")
    files.delete(f"{root}/b")
    assert not files.exists(f"{root}/b/c/d")
    with pytest.raises(OSError, match="nowhere"):
        files.rename(f"{root}/nowhere", f"{root}/x")
    with pytest.raises(OSError, match="nowhere"):
        files.read(f"{root}/nowhere")
