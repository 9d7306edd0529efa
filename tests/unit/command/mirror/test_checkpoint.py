"""The file with positions: as it was written, or nothing at all."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_command.mirror.checkpoint import CheckpointFolder
from ternmq_command.mirror.positions import Queue, TopicPositions
from ternmq_command.terminal.failures import WrongUsage

THERE, HERE = Queue("a", "orders", 0), Queue("here", "orders", 1)


def positions() -> dict[str, TopicPositions]:
    topic = TopicPositions()
    topic.note_copied(HERE, 0, THERE, 5, [7, 8])
    topic.note_copied(HERE, 4, THERE, 7, [9])
    topic.note_copied(HERE, 5, THERE, 6, [8])
    topic.note_passed(THERE, 20, 0, HERE)
    return {"orders": topic, "empty": TopicPositions()}


def test_positions_are_read_as_they_were_written(tmp_path: Path) -> None:
    with CheckpointFolder(tmp_path / "new" / "folder") as folder:
        assert folder.read("east", "here:1") == {}
        folder.write("east", "here:1", positions())
        read = folder.read("east", "here:1")
        assert read.keys() == {"orders", "empty"}
        assert read["orders"].sources == positions()["orders"].sources
        assert read["orders"].queues[HERE].runs == positions()["orders"].queues[HERE].runs
        assert read["orders"].doubles == 1
        assert folder.read("west", "here:1") == folder.read("east", "here:2") == {}


@given(data=st.data())
def test_a_damaged_file_is_as_none(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("state")
    with CheckpointFolder(path) as folder:
        folder.write("east", "here:1", positions())
        whole = bytearray((path / "positions").read_bytes())
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] ^= data.draw(st.integers(1, 255))
        (path / "positions").write_bytes(whole[: data.draw(st.integers(at + 1, len(whole)))])
        assert folder.read("east", "here:1") == {}


def test_a_folder_is_used_by_one_mirror(tmp_path: Path) -> None:
    with CheckpointFolder(tmp_path), pytest.raises(WrongUsage, match="another mirror"):
        CheckpointFolder(tmp_path).__enter__()
    with CheckpointFolder(tmp_path):
        pass


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongUsage, match="can't use"):
        CheckpointFolder(tmp_path / "file").__enter__()
