"""The keys of handles in the registry: there from the start, the same to all, and three at most."""

from pathlib import Path

from ternmq_common.catalog.handle_keys import KEY_BYTES
from ternmq_registry.copies.salvage import replace_damaged
from ternmq_registry.registry import Registry
from tests.unit.registry.conftest import Open


def numbers(registry: Registry) -> list[int]:
    return [key.number for key in registry.read_snapshot().handle_keys]


def test_a_new_registry_has_two_keys_which_all_who_open_it_read(open_registry: Open) -> None:
    first, second = open_registry().read_snapshot().handle_keys, open_registry().read_snapshot().handle_keys
    assert first == second
    assert [key.number for key in first] == [1, 2]
    assert {len(key.secret) for key in first} == {KEY_BYTES}
    assert first[0].secret != first[1].secret
    assert first[0].created_ms > 0


def test_no_two_registries_have_the_same_keys(tmp_path: Path) -> None:
    opened = [Registry.open_sqlite(tmp_path / name) for name in ("a.db", "b.db")]
    secrets = {key.secret for registry in opened for key in registry.read_snapshot().handle_keys}
    assert len(secrets) == 4
    for registry in opened:
        registry.close()


def test_a_rotation_keeps_two_keys_adds_one_and_is_seen_by_others(open_registry: Open) -> None:
    here, there = open_registry(), open_registry()
    before = there.read_snapshot()
    made = here.rotate_handle_keys()
    after = there.read_snapshot(before)
    assert (after.version > before.version, after.handle_keys) == (True, made)
    assert made[:2] == before.handle_keys
    assert numbers(there) == [1, 2, 3]
    here.rotate_handle_keys()
    assert numbers(there) == [2, 3, 4]


def test_keys_can_all_be_given_up_at_once(open_registry: Open) -> None:
    registry = open_registry()
    registry.rotate_handle_keys()
    before = {key.secret for key in registry.read_snapshot().handle_keys}
    made = registry.rotate_handle_keys(all_at_once=True)
    assert numbers(registry) == [4, 5]
    assert not before & {key.secret for key in made}


def test_keys_that_somebody_deleted_are_made_anew(open_registry: Open) -> None:
    registry = open_registry()
    with registry._database.change_transaction() as connection:
        connection.exec_driver_sql("DELETE FROM handle_keys")
        connection.exec_driver_sql("UPDATE registry_version SET version = version + 1")
    assert numbers(registry) == []
    registry.rotate_handle_keys(all_at_once=True)
    assert numbers(registry) == [1, 2]


def test_a_registry_made_in_the_place_of_a_damaged_one_has_keys_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    registry = Registry.open_sqlite(path)
    before = registry.read_snapshot().handle_keys
    registry.close()
    replace_damaged(path, [], [])
    registry = Registry.open_sqlite(path)
    assert not {key.secret for key in before} & {key.secret for key in registry.read_snapshot().handle_keys}
    registry.close()
