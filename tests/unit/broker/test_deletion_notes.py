"""Notes on deletions outlive their writer, and say no more of each than they have to."""

from pathlib import Path

import pytest

from ternmq_broker.server.deletion_notes import DeletionNotes
from ternmq_common.catalog.cluster import DeletedKind, RegistryDeletion
from ternmq_common.errors import StartupError

FIRST, SECOND, THIRD = (RegistryDeletion(version, DeletedKind.TOPIC, f"t{version}") for version in (3, 5, 9))


def reread(folder: Path) -> DeletionNotes:
    notes = DeletionNotes(folder)
    assert notes.read()
    return notes


def test_what_was_noted_is_done_after_a_restart(tmp_path: Path) -> None:
    notes = DeletionNotes(tmp_path)
    assert not notes.read()
    assert not notes.is_done(FIRST)
    notes.add_done(FIRST)
    notes.add_done(THIRD, RegistryDeletion(4, DeletedKind.GROUP, "g"))
    again = reread(tmp_path)
    assert again.is_done(FIRST)
    assert again.is_done(RegistryDeletion(4, DeletedKind.GROUP, "g"))
    assert not again.is_done(SECOND)
    assert not again.is_done(RegistryDeletion(3, DeletedKind.TOPIC, "other"))


def test_pruned_notes_say_the_same_of_what_is_below(tmp_path: Path) -> None:
    notes = DeletionNotes(tmp_path)
    notes.add_done(FIRST, THIRD)
    notes.prune_up_to(5)
    again = reread(tmp_path)
    assert (again.up_to, again.beyond) == (5, {THIRD})
    assert all(map(again.is_done, (FIRST, SECOND, THIRD)))
    again.prune_up_to(2)
    again.add_done(SECOND)
    assert (again.up_to, reread(tmp_path).beyond) == (5, {THIRD})


def test_damaged_notes_refuse_the_start(tmp_path: Path) -> None:
    notes = DeletionNotes(tmp_path)
    notes.add_done(FIRST)
    path = tmp_path / "deletions-done"
    path.write_bytes(path.read_bytes().replace(b"t3", b"t4"))
    with pytest.raises(StartupError, match="damaged"):
        DeletionNotes(tmp_path).read()
