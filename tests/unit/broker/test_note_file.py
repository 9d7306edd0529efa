"""The small files beside a broker's store: what is damaged is refused, what an earlier version wrote is read."""

import logging
import re
from pathlib import Path

import pytest

from ternmq_broker.server.note_file import NoteFile
from ternmq_broker.server.store_identity import store_id
from ternmq_broker.store.disk import checked_file
from ternmq_common.errors import StartupError

OLD = re.compile("[0-9a-f]{32}")
OLD_JSON = re.compile(r"\{.*\}")
FLIPS = [*(1 << bit for bit in range(8)), 0xFF]
ID = "00112233445566778899aabbccddeeff"
NOTES = '{"up_to": 7, "beyond": [[9, "topic", "orders"]]}'


def file_of(path: Path, old: re.Pattern[str] = OLD) -> NoteFile:
    return NoteFile(path, old=old, advice="do this")


@pytest.mark.parametrize(("content", "old"), [(ID, OLD), (NOTES, OLD_JSON), ("", OLD)])
def test_what_is_written_is_read_back(tmp_path: Path, content: str, old: re.Pattern[str]) -> None:
    file = file_of(tmp_path / "store-id", old)
    assert file.read() is None
    file.write(content)
    assert file.read() == content


@pytest.mark.parametrize(("content", "old"), [(ID, OLD), (NOTES, OLD_JSON)])
def test_every_byte_that_is_changed_or_missing_is_refused(tmp_path: Path, content: str, old: re.Pattern[str]) -> None:
    path = tmp_path / "store-id"
    file = file_of(path, old)
    file.write(content)
    whole = path.read_bytes()
    damaged = [whole[:place] for place in range(len(whole))]
    for place in range(len(whole)):
        damaged += [whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :] for flip in FLIPS]
    for each in damaged:
        path.write_bytes(each)
        with pytest.raises(StartupError, match=rf"^the file {path} is damaged: do this$"):
            file.read()


@pytest.mark.parametrize(("content", "old"), [(ID, OLD), (NOTES, OLD_JSON)])
def test_a_file_of_an_earlier_version_is_read_and_written_anew(
    tmp_path: Path, content: str, old: re.Pattern[str]
) -> None:
    path = tmp_path / "store-id"
    path.write_text(f"{content}\n")
    assert file_of(path, old).read() == content
    assert path.read_text().startswith("TernMQ store-id 1 ")
    assert file_of(path, old).read() == content


def test_a_file_of_a_newer_version_is_not_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "store-id"
    path.write_bytes(checked_file.encode_file("store-id", 2, {"whatever": 1}))
    with pytest.raises(StartupError, match=r"is of a newer TernMQ, start that version: .* has layout 2"):
        file_of(path).read()


def test_a_stores_id_is_made_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = store_id(tmp_path, is_used=False)
    assert len(made) == 32
    assert store_id(tmp_path, is_used=True) == made
    assert caplog.text == ""


def test_a_stores_id_that_is_gone_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = store_id(tmp_path, is_used=False)
    (tmp_path / "store-id").unlink()
    with caplog.at_level(logging.WARNING):
        assert store_id(tmp_path, is_used=True) != first
    assert f"the file {tmp_path / 'store-id'} is gone though the store has messages" in caplog.text


def test_a_stores_id_that_is_damaged_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store-id").write_text(ID[:-1] + "\n")
    with pytest.raises(StartupError, match="store-id is damaged: restore it from a copy, or write into it"):
        store_id(tmp_path, is_used=True)
