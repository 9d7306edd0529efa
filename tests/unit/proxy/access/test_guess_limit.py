"""How many wrong secrets an address may try each second."""

import pytest

from ternmq_proxy.access.guess_limit import REMEMBERED_MAX, GuessLimit


def limit_at(now: list[float]) -> GuessLimit:
    return GuessLimit(lambda: now[0], per_second=3)


def test_a_second_has_so_many() -> None:
    now = [100.2]
    limit = limit_at(now)
    for _ in range(3):
        assert not limit.is_reached("10.0.0.1", "alice")
        limit.count_wrong("10.0.0.1", "alice")
    assert limit.is_reached("10.0.0.1", "alice")
    assert not limit.is_reached("10.0.0.2", "alice")
    assert not limit.is_reached("10.0.0.1", "bob"), "others behind the same address are served"
    now[0] = 101.0
    assert not limit.is_reached("10.0.0.1", "alice")
    limit.count_wrong("10.0.0.1", "alice")
    assert not limit.is_reached("10.0.0.1", "alice")


@pytest.mark.parametrize(("other", "is_same"), [("2001:db8::2", True), ("2001:db8:0:1::2", False)])
def test_hosts_of_a_network_of_ipv6_are_one(other: str, is_same: bool) -> None:
    limit = limit_at([0.0])
    for _ in range(3):
        limit.count_wrong("2001:db8::1", "alice")
    assert limit.is_reached(other, "alice") is is_same


def test_as_many_are_remembered_as_there_is_room_for() -> None:
    limit = limit_at([0.0])
    for number in range(REMEMBERED_MAX + 100):
        limit.count_wrong("10.0.0.1", f"user-{number}")
    assert len(limit._wrong) == REMEMBERED_MAX
