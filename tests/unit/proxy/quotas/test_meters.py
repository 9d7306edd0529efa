"""Meters by name: bounded, and nobody gains by inventing names."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.quotas import Quota, QuotaKind
from ternmq_proxy.quotas.meters import Meters


def of(name: str, rate: int) -> Quota:
    return Quota(kind=QuotaKind.CLIENT, name=name, messages_in=rate)


def test_a_name_has_its_own_quota_else_the_default_else_none() -> None:
    meters = Meters({"*": of("*", 5), "alice": of("alice", 7)})
    alice, bob = meters.of("alice", 0.0), meters.of("bob", 0.0)
    assert alice is not None
    assert bob is not None
    assert (alice.quota.messages_in, bob.quota.messages_in) == (7, 5)
    assert meters.of("bob", 1.0) is bob
    assert Meters({"alice": of("alice", 7)}).of("bob", 0.0) is None
    assert Meters({}).of("alice", 0.0) is None


@given(names=st.lists(st.integers(0, 40), max_size=200))
def test_invented_names_neither_grow_the_table_nor_send_more(names: list[int]) -> None:
    meters, taken = Meters({"*": of("*", 1)}, most=8), 0
    for number in names:
        meter = meters.of(f"c{number}", 0.0)
        assert meter is not None
        if not meter.wait_in_s(1, 10, 0.0):
            meter.take_in(1, 10, 0.0)
            taken += 1
    assert len(list(meters.all())) <= 9
    assert taken <= 9  # a message each, and one of all others together


def test_who_was_idle_long_enough_makes_room() -> None:
    meters = Meters({"*": of("*", 1)}, most=1)
    first = meters.of("a", 0.0)
    assert first is not None
    first.take_in(1, 1, 0.0)
    others = meters.of("b", 0.5)
    assert others is meters.of("c", 0.5)
    second = meters.of("b", 2.0)
    assert second is not None
    assert (second.name, second is others) == ("b", False)
    assert meters.of("a", 2.0) is not first


def test_a_change_of_one_quota_leaves_what_others_have_taken() -> None:
    quotas = {"*": of("*", 5), "alice": of("alice", 7), "bob": of("bob", 9)}
    meters = Meters(quotas)
    alice, bob, carol = (meters.of(name, 0.0) for name in ("alice", "bob", "carol"))
    changed = meters.changed({**quotas, "bob": of("bob", 1)})
    assert changed.of("alice", 0.0) is alice
    assert changed.of("carol", 0.0) is carol
    assert changed.of("bob", 0.0) is not bob
    assert meters.changed({"*": of("*", 6)}).of("carol", 0.0) is not carol
