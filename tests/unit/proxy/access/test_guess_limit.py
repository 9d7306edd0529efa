"""How many wrong secrets an address may try each second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_proxy.access.guess_limit import SOURCES_MAX, GuessLimit


def limit_at(now: list[float]) -> GuessLimit:
    return GuessLimit(lambda: now[0], per_second=3)


def test_a_second_has_so_many() -> None:
    now = [100.2]
    limit = limit_at(now)
    for _ in range(3):
        assert not limit.is_reached("10.0.0.1")
        limit.count_wrong("10.0.0.1")
    assert limit.is_reached("10.0.0.1")
    assert not limit.is_reached("10.0.0.2")
    now[0] = 101.0
    assert not limit.is_reached("10.0.0.1")
    limit.count_wrong("10.0.0.1")
    assert not limit.is_reached("10.0.0.1")


@pytest.mark.parametrize(("other", "is_same"), [("2001:db8::2", True), ("2001:db8:0:1::2", False)])
def test_hosts_of_a_network_of_ipv6_are_one(other: str, is_same: bool) -> None:
    limit = limit_at([0.0])
    for _ in range(3):
        limit.count_wrong("2001:db8::1")
    assert limit.is_reached(other) is is_same


@given(st.integers(SOURCES_MAX, 2 * SOURCES_MAX))
def test_as_many_addresses_are_remembered_as_there_is_room_for(count: int) -> None:
    limit = limit_at([0.0])
    for number in range(count):
        limit.count_wrong(f"10.0.{number >> 8}.{number & 255}")
    assert len(limit._wrong) == SOURCES_MAX
