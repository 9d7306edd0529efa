"""Shares of several proxies: together the limit, to each what is fair, and what nobody wants is lent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.resources.quotas import Quota, QuotaKind, QuotaSnapshot
from ternmq_proxy.quotas.quotas import ClientQuotas
from ternmq_proxy.quotas.shares import QuotaShares, apply_shares, read_demands
from ternmq_proxy.quotas.sharing import max_min
from ternmq_registry.quotas import Demand, Uses
from tests.support.hand_clock import Clock

ALICE = (QuotaKind.USER, "alice")
WANTED = st.lists(st.floats(0, 1000), min_size=1, max_size=8)


@given(limit=st.floats(1, 2000), wanted=WANTED)
def test_shares_are_the_limit_together_and_nobody_is_below_its_equal_part(limit: float, wanted: list[float]) -> None:
    shares = max_min(limit, wanted)
    assert sum(shares) == pytest.approx(limit)
    for share, asked in zip(shares, wanted, strict=True):
        assert share >= min(asked, limit / len(wanted)) * 0.999


@given(limit=st.floats(1, 2000), wanted=WANTED)
def test_who_wants_more_never_gets_less(limit: float, wanted: list[float]) -> None:
    pairs = sorted(zip(wanted, max_min(limit, wanted), strict=True))
    shares = [share for _, share in pairs]
    assert shares == pytest.approx(sorted(shares))


def quotas_of(now: Clock, **limits: int) -> ClientQuotas:
    quotas = ClientQuotas(now)
    quotas.follow_snapshot(QuotaSnapshot({ALICE: Quota(kind=QuotaKind.USER, name="alice", **limits)}))
    return quotas


def test_unused_share_is_lent_to_the_proxy_that_wants_more() -> None:
    now = Clock(100.0)
    busy, idle = quotas_of(now, messages_in=100), quotas_of(now, messages_in=100)
    for quotas in (busy, idle):
        quotas.admit_messages("alice", "t", "c", 1, 10)
    rates = []
    for _ in range(12):
        now.now_s += 1
        [meter] = busy.list_meters()
        assert meter.messages_in is not None
        meter.wanted_messages_in += meter.messages_in.rate  # as much as it may have
        demands: dict[str, Demand] = {"busy": read_demands(busy, 1.0), "idle": read_demands(idle, 1.0)}
        for name, quotas in (("busy", busy), ("idle", idle)):
            apply_shares(quotas, name, demands)
        rates = [
            meter.messages_in.rate for quotas in (busy, idle) for meter in quotas.list_meters() if meter.messages_in
        ]
        assert sum(rates) == pytest.approx(100, rel=1e-3)  # a rate is never 0
    assert rates[0] > 95


def test_a_name_that_is_new_has_an_equal_part_at_first() -> None:
    quotas = quotas_of(Clock(100.0), messages_in=90, connections=10)
    apply_shares(quotas, "a", {"a": {}, "b": {}, "c": {}})
    quotas.admit_messages("alice", "t", "c", 1, 10)
    [meter] = quotas.list_meters()
    assert meter.rate_shares() == {"messages_in": pytest.approx(30), "connections": 3}


async def test_nothing_is_written_while_there_are_no_quotas() -> None:
    written: list[str] = []

    async def exchange(name: str, demand: Demand, uses: Uses, lease_ms: int) -> dict[str, Demand]:
        assert lease_ms > 0
        assert uses == {}  # nobody has come
        written.append(name)
        return {name: demand}

    now = Clock(100.0)
    await QuotaShares(ClientQuotas(now), "p", exchange).renew_shares()
    assert written == []
    await QuotaShares(quotas_of(now, messages_in=5), "p", exchange).renew_shares()
    assert written == ["p"]
