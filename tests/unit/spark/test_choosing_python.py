"""Which Python Spark starts for its workers, once the package is imported."""

import sys
from pathlib import Path

import pytest

from pyspark_ternmq.pipelines.worker_python import choose_worker_python
from pyspark_ternmq.worker_python import CHOSEN, choose_python


def linked(folder: Path) -> str:
    """A Python of a virtual environment, which is a link."""
    folder.mkdir()
    for name in ("python", "python3"):
        (folder / name).symlink_to(sys.executable)
    return str(folder / "python")


def test_another_python_on_the_path_is_not_started(tmp_path: Path) -> None:
    ours, others = linked(tmp_path / "ours"), linked(tmp_path / "others")
    for on_path in (others, None):
        environment = dict[str, str]()
        assert choose_python(environment, ours, on_path, is_java_up=False) is None
        assert environment == {"PYSPARK_PYTHON": ours, CHOSEN: ours}


@pytest.mark.parametrize("is_java_up", [False, True])
def test_an_activated_environment_and_what_somebody_said_stay(tmp_path: Path, *, is_java_up: bool) -> None:
    ours = linked(tmp_path / "ours")
    environment = dict[str, str]()
    assert choose_python(environment, ours, str(tmp_path / "ours/python3"), is_java_up=is_java_up) is None
    assert environment == {}
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        environment = {name: "python3.12"}
        assert choose_python(environment, ours, None, is_java_up=is_java_up) is None
        assert environment == {name: "python3.12"}


def test_a_spark_that_was_started_before_is_told_what_to_set(tmp_path: Path) -> None:
    ours, others = linked(tmp_path / "ours"), linked(tmp_path / "others")
    environment = dict[str, str]()
    warning = choose_python(environment, ours, others, is_java_up=True)
    assert warning is not None
    assert warning.endswith(f"set PYSPARK_PYTHON={ours}")
    assert environment == {}


def test_pipelines_choose_their_own_where_nobody_said_anything(tmp_path: Path) -> None:
    ours = linked(tmp_path / "ours")
    environment = dict[str, str]()
    choose_python(environment, ours, None, is_java_up=False)
    choose_worker_python(environment, is_local=False)
    assert environment["PYSPARK_PYTHON"] == sys.executable
