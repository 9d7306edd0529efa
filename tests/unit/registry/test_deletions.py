"""What brokers that were away have to forget when they come back."""

from ternmq_common.catalog.cluster import DeletedKind, RegistryDeletion
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_registry.registry import Registry

LEASE_MS = 60_000


def registered(registry: Registry, name: str, store_id: str = "store") -> int:
    return registry.register_broker(name, store_id, "host:1", "1.0", LEASE_MS)


def deleted_topic(registry: Registry, name: str) -> int:
    registry.create_topic(Topic(name=name, type=MessageType.NORMAL))
    return registry.delete_topic(name)


def deleted_group(registry: Registry, name: str) -> int:
    registry.create_group(ConsumerGroup(name=name))
    return registry.delete_group(name)


def test_deletions_are_told_in_order_and_from_a_version_on(registry: Registry) -> None:
    registered(registry, "b1")
    first, second = deleted_topic(registry, "orders"), deleted_group(registry, "billing")
    deletions = [
        RegistryDeletion(first, DeletedKind.TOPIC, "orders"),
        RegistryDeletion(second, DeletedKind.GROUP, "billing"),
    ]
    assert registry.list_deletions(0) == deletions
    assert registry.list_deletions(first) == deletions[1:]
    assert registry.list_deletions(second) == []


def test_a_deletion_is_kept_until_every_broker_has_done_it(registry: Registry) -> None:
    registered(registry, "b1")
    registered(registry, "b2")
    first, second = deleted_topic(registry, "orders"), deleted_topic(registry, "letters")
    registry.set_applied_version("b1", second)
    assert [deletion.version for deletion in registry.list_deletions(0)] == [first, second]
    registry.set_applied_version("b2", first)
    assert [deletion.version for deletion in registry.list_deletions(0)] == [second]
    registry.remove_broker("b2")
    assert registry.list_deletions(0) == []


def test_what_was_done_is_not_undone(registry: Registry) -> None:
    registered(registry, "b1")
    done = registry.applied_version("b1") + 50
    registry.set_applied_version("b1", done)
    registry.set_applied_version("b1", done - 10)
    assert registry.applied_version("b1") == done
    assert registry.applied_version("nobody") == 0


def test_without_brokers_no_deletion_is_kept(registry: Registry) -> None:
    assert deleted_topic(registry, "orders") > 0
    assert registry.list_deletions(0) == []


def test_a_restart_keeps_what_is_still_to_do(registry: Registry) -> None:
    registered(registry, "b1")
    done = registry.applied_version("b1")
    version = deleted_topic(registry, "orders")
    registered(registry, "b1")
    assert registry.applied_version("b1") == done
    assert [deletion.version for deletion in registry.list_deletions(done)] == [version]


def test_a_store_that_was_never_here_has_nothing_to_forget(registry: Registry) -> None:
    """Its messages may be of a topic that was made again after the deletion."""
    registered(registry, "b1")
    version = deleted_topic(registry, "orders")
    registry.deregister_broker("b1", registry.read_brokers()[1]["b1"].epoch)
    registry.register_broker("b1", "another", "host:1", "1.0", LEASE_MS, is_empty=True, instead_of="store")
    assert registry.applied_version("b1") > version
    assert registered(registry, "b2", store_id="a third") == registry.applied_version("b2") > version
