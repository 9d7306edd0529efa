"""Meters by name: bounded, and nobody gains by inventing names."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.resources.quotas import Quota, QuotaKind
from ternmq_proxy.quotas.meters import QuotaMeters


def of(name: str, rate: int) -> Quota:
    return Quota(kind=QuotaKind.CLIENT, name=name, messages_in=rate)


def test_a_name_has_its_own_quota_else_the_default_else_none() -> None:
    meters = QuotaMeters({"*": of("*", 5), "alice": of("alice", 7)})
    alice, bob = meters.find_meter("alice", 0.0), meters.find_meter("bob", 0.0)
    assert alice is not None
    assert bob is not None
    assert (alice.quota.messages_in, bob.quota.messages_in) == (7, 5)
    assert meters.find_meter("bob", 1.0) is bob
    assert QuotaMeters({"alice": of("alice", 7)}).find_meter("bob", 0.0) is None
    assert QuotaMeters({}).find_meter("alice", 0.0) is None


@given(names=st.lists(st.integers(0, 40), max_size=200))
def test_invented_names_neither_grow_the_table_nor_send_more(names: list[int]) -> None:
    meters, taken = QuotaMeters({"*": of("*", 1)}, most=8), 0
    for number in names:
        meter = meters.find_meter(f"c{number}", 0.0)
        assert meter is not None
        if not meter.wait_in_s(1, 10, 0.0):
            meter.take_in(1, 10, 0.0)
            taken += 1
    assert len(list(meters.list_meters())) <= 9
    assert taken <= 9  # a message each, and one of all others together


def test_who_was_idle_long_enough_makes_room() -> None:
    meters = QuotaMeters({"*": of("*", 1)}, most=1)
    first = meters.find_meter("a", 0.0)
    assert first is not None
    first.take_in(1, 1, 0.0)
    others = meters.find_meter("b", 0.5)
    assert others is meters.find_meter("c", 0.5)
    second = meters.find_meter("b", 2.0)
    assert second is not None
    assert (second.name, second is others) == ("b", False)
    assert meters.find_meter("a", 2.0) is not first


def test_a_change_of_one_quota_leaves_what_others_have_taken() -> None:
    quotas = {"*": of("*", 5), "alice": of("alice", 7), "bob": of("bob", 9)}
    meters = QuotaMeters(quotas)
    alice, bob, carol = (meters.find_meter(name, 0.0) for name in ("alice", "bob", "carol"))
    changed = meters.with_quotas({**quotas, "bob": of("bob", 1)})
    assert changed.find_meter("alice", 0.0) is alice
    assert changed.find_meter("carol", 0.0) is carol
    assert changed.find_meter("bob", 0.0) is not bob
    assert meters.with_quotas({"*": of("*", 6)}).find_meter("carol", 0.0) is not carol
