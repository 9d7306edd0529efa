"""What can be saved of a process is found by its open files; that a server's are all of it is shown in tests/e2e."""

from pathlib import Path

import pytest

from ternmq_broker.store_tools.rescue import rescue_files
from ternmq_common.errors import StartupError

LOG = f"store/commitlog/{0:020d}"


class Proc:
    """A /proc of one process, whose links lead to files that are there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fd = folder / "proc" / "7" / "fd"
        self.fd.mkdir(parents=True)

    def has(self, number: int, path: str, content: bytes) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        (self.fd / str(number)).symlink_to(file)

    def rescued(self, target: str = "saved") -> dict[str, bytes]:
        rescue_files(7, self.folder / target, proc=self.folder / "proc")
        saved = self.folder / target
        return {str(path.relative_to(saved)): path.read_bytes() for path in saved.rglob("*") if path.is_file()}


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_files_of_a_data_directory_are_saved_and_no_others(proc: Proc) -> None:
    proc.has(3, f"gone/{LOG} (deleted)", b"log")
    proc.has(4, "gone/store/consumption/journal (deleted)", b"journal")
    proc.has(5, "gone/store/index/floors (deleted)", b"floors")
    proc.has(6, "gone/store/index/00000000000000000000 (deleted)", b"made anew by a start")
    proc.has(7, "gone/registry.db (deleted)", b"registry")
    proc.has(8, "gone/store/format (deleted)", b"format")
    proc.has(9, "elsewhere/server.log", b"")
    (proc.fd / "10").symlink_to("socket:[4711]")
    assert proc.rescued() == {
        LOG: b"log",
        "store/consumption/journal": b"journal",
        "store/index/floors": b"floors",
        "registry.db": b"registry",
        "store/format": b"format",
    }


def test_of_a_file_that_was_just_replaced_the_later_one_is_saved(proc: Proc) -> None:
    proc.has(3, f"store/{LOG}", b"log")
    proc.has(12, "gone/store/consumption/journal", b"later")
    proc.has(5, "gone/store/consumption/journal (deleted)", b"earlier")
    assert proc.rescued()["store/consumption/journal"] == b"later"


def test_nothing_is_written_over(proc: Proc) -> None:
    proc.has(3, LOG, b"log")
    proc.rescued()
    with pytest.raises(StartupError, match="not empty"):
        proc.rescued()


def test_a_process_without_a_store_and_one_that_is_not_there(proc: Proc) -> None:
    proc.has(3, "registry.db", b"registry")
    with pytest.raises(StartupError, match="has no store open"):
        proc.rescued()
    with pytest.raises(StartupError, match="no process 8"):
        rescue_files(8, proc.folder / "saved", proc=proc.folder / "proc")
    assert not (proc.folder / "saved").exists()
