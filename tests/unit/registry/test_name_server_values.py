"""Values that tools keep in a name server, in the registry."""

import pytest

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_registry.registry import Registry


def test_a_value_is_there_until_it_is_deleted(registry: Registry) -> None:
    version = registry.read_snapshot().version
    registry.put_value("space", "b", "1")
    registry.put_value("space", "a", "2")
    registry.put_value("other", "a", "3")
    registry.put_value("space", "b", "4")
    assert [*registry.read_values("space").items()] == [("a", "2"), ("b", "4")]
    assert registry.read_values("other") == {"a": "3"}
    assert registry.delete_value("space", "a")
    assert not registry.delete_value("space", "a")
    assert registry.read_values("space") == {"b": "4"}
    assert registry.read_snapshot().version > version


def test_there_are_only_so_many_values(registry: Registry) -> None:
    for name in ("a", "b", "a"):
        registry.put_value("space", name, "1", values_max=2)
    with pytest.raises(MessagingError, match="there are 2 values, the most allowed") as refused:
        registry.put_value("space", "c", "1", values_max=2)
    assert refused.value.code == ErrorCode.TOO_MANY_REQUESTS
    assert registry.read_values("space").keys() == {"a", "b"}
