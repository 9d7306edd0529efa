"""An overlay reads like the folder, changes like one, and leaves the disk as it is."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ternmq_broker.store.disk import overlay
from ternmq_broker.store.disk.files import DiskFolder, Folder
from ternmq_broker.store.disk.overlay import OverlayFolder
from tests.support.disk_store import state_of

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = st.sampled_from(["a", "b", "c"])
PIECES = st.binary(max_size=20)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), NAMES, PIECES),
        st.tuples(st.just("truncate"), NAMES, st.integers(0, 40)),
        st.tuples(st.just("replace"), NAMES, PIECES),
        st.tuples(st.just("remove"), NAMES, st.none()),
        st.tuples(st.just("create"), NAMES, st.none()),
    ),
    max_size=12,
)


def change(folder: Folder, what: str, name: str, value: object) -> None:
    is_there = name in folder.names()
    if what == "replace":
        assert isinstance(value, bytes)
        folder.replace(name, value)
    elif what == "create" and not is_there:
        folder.create(name).close()
    elif what == "remove" and is_there:
        folder.remove(name)
    elif is_there:
        file = folder.open(name)
        if isinstance(value, bytes):
            file.append([value, b"."])
        elif isinstance(value, int):
            file.truncate(value)
        file.sync()
        file.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES, position=st.integers(0, 50), size=st.integers(0, 50))
def test_an_overlay_is_as_a_folder_would_be(
    tmp_path: Path, changes: list[tuple[str, str, object]], position: int, size: int
) -> None:
    shutil.rmtree(tmp_path)
    for name in ("disk", "below"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a").write_bytes(b"what was there before")
        (tmp_path / name / "b").write_bytes(b"")
    disk, over = DiskFolder(tmp_path / "disk"), OverlayFolder(tmp_path / "below")
    below = state_of(tmp_path / "below")
    for what, name, value in changes:
        change(disk, what, name, value)
        change(over, what, name, value)
    assert over.names() == disk.names()
    for name in disk.names():
        assert over.content(name) == disk.content(name)
        expected, found = disk.open(name), over.open(name)
        assert found.size == expected.size
        assert found.read(position, size) == expected.read(position, size)
        expected.close()
    assert over.content("none") is None
    assert state_of(tmp_path / "below") == below
    over.close_on_disk()


def test_what_a_broker_changes_meanwhile_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / "grown").write_bytes(b"before")
    (tmp_path / "gone").write_bytes(b"gone")
    over = OverlayFolder(tmp_path)
    (tmp_path / "grown").write_bytes(b"before and after")
    (tmp_path / "gone").unlink()
    (tmp_path / "new").write_bytes(b"new")
    assert over.names() == ["gone", "grown"]
    assert (over.content("grown"), over.content("gone")) == (b"before", b"gone")
    over.close_on_disk()


@pytest.mark.parametrize(("vanishing", "succeeds"), [(3, True), (1000, False)])
def test_a_file_that_vanishes_between_list_and_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, vanishing: int, succeeds: bool
) -> None:
    (tmp_path / "stays").write_bytes(b"x")
    whole: Callable[[Path], list[str]] = overlay._file_names
    looks = 0

    def names(path: Path) -> list[str]:
        nonlocal looks
        looks += 1
        return [*whole(path), *(["vanished"] if looks < vanishing else [])]

    monkeypatch.setattr(overlay, "_file_names", names)
    if succeeds:
        OverlayFolder(tmp_path).close_on_disk()
        assert looks == vanishing
    else:
        with pytest.raises(FileNotFoundError, match="are created and removed too fast"):
            OverlayFolder(tmp_path)
