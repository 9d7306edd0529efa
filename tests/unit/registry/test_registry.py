"""Topics and groups as the registry keeps them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.model import Group, Topic
from ternmq_common.retry_backoff import parse_backoff
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_registry.registry import Registry

TOPIC = Topic(name="orders", type=pb.PRIORITY, queues=3, created_ms=17)
GROUP = Group(
    name="billing",
    fifo=True,
    max_attempts=5,
    created_ms=18,
    retry_backoff=parse_backoff("exponential:1s,10m,2"),
    consume_from="1785585600000",
    assignment="averagely-by-circle",
    queue_lock_hold_ms=30_000,
    priority_factor=60,
)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    opened = Registry.sqlite(tmp_path / "registry.db")
    yield opened
    opened.close()


def test_what_is_made_is_read_back_after_a_restart(tmp_path: Path) -> None:
    before = Registry.sqlite(tmp_path / "registry.db")
    assert before.create_topic(TOPIC) == (TOPIC, True)
    assert before.create_group(GROUP) == (GROUP, True)
    assert before.create_group(Group(name="plain")) == (Group(name="plain"), True)
    before.close()
    after = Registry.sqlite(tmp_path / "registry.db")
    assert (after.topics(), after.groups()) == ([TOPIC], [GROUP, Group(name="plain")])
    after.close()


def test_making_the_same_again_is_no_error(registry: Registry) -> None:
    registry.create_topic(TOPIC)
    registry.create_group(GROUP)
    assert registry.create_topic(replace(TOPIC, created_ms=99)) == (TOPIC, False)
    assert registry.create_group(replace(GROUP, created_ms=99)) == (GROUP, False)


def test_making_the_same_with_other_settings_is_refused(registry: Registry) -> None:
    registry.create_topic(TOPIC)
    registry.create_group(GROUP)
    with pytest.raises(MessagingError, match="exists with type PRIORITY and 3 queues") as refused:
        registry.create_topic(replace(TOPIC, queues=4))
    assert refused.value.code == pb.BAD_REQUEST
    with pytest.raises(MessagingError, match="'billing' exists with max_attempts 5, priority_factor 60;"):
        registry.create_group(replace(GROUP, max_attempts=6, priority_factor=0))
    assert registry.groups() == [GROUP]


def test_a_group_gets_other_settings(registry: Registry) -> None:
    registry.create_group(GROUP)
    registry.create_group(Group(name="plain"))
    registry.update_group(replace(GROUP, priority_factor=0))
    assert registry.groups() == [replace(GROUP, priority_factor=0), Group(name="plain")]


def test_what_is_deleted_is_gone(registry: Registry) -> None:
    registry.create_topic(TOPIC)
    registry.create_group(GROUP)
    assert (registry.delete_topic("orders"), registry.delete_group("billing")) == (True, True)
    assert (registry.topics(), registry.groups()) == ([], [])
    assert (registry.delete_topic("orders"), registry.delete_group("billing")) == (False, False)


def test_a_file_that_is_no_registry_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    file.write_text("not a database, but longer than nothing " * 10)
    with pytest.raises(StartupError, match="can't be opened: file is not a database; check the file"):
        Registry.sqlite(file)
