"""What is taken of quotas: here, and of all proxies together."""

from ternmq_common.resources.quotas import Quota, QuotaKind, QuotaSnapshot
from ternmq_proxy.quotas.quotas import ClientQuotas
from ternmq_proxy.quotas.uses import USES_MAX, most_used, read_uses, sum_uses
from ternmq_registry.quotas import QuotaUse


def use(rate: float, share: float = 10.0, *, refused: int = 0, connections: int = 0) -> QuotaUse:
    return QuotaUse(refused=refused, connections=connections, share={"messages_in": share}, rate={"messages_in": rate})


def test_all_that_proxies_give_out_of_a_name_is_added_up() -> None:
    one = {"user:alice": use(4, refused=1, connections=2), "topic:a": use(1)}
    other = {"user:alice": use(5, 20, refused=2, connections=3), "topic:b": use(2)}
    assert sum_uses([one, other, {}]) == {
        "user:alice": use(9, 30, refused=3, connections=5),
        "topic:a": use(1),
        "topic:b": use(2),
    }


def test_a_limit_that_only_some_proxies_know_yet_is_theirs() -> None:
    newer = QuotaUse(refused=0, connections=0, share={"bytes_in": 7.0}, rate={"bytes_in": 1.0})
    total = sum_uses([{"user:alice": use(4)}, {"user:alice": newer}])["user:alice"]
    assert total["share"] == {"messages_in": 10, "bytes_in": 7}
    assert total["rate"] == {"messages_in": 4, "bytes_in": 1}


def test_those_that_take_most_of_what_they_may_come_first() -> None:
    uses = {f"client:{number}": use(number, 1000) for number in range(USES_MAX + 1)}
    uses["client:small"] = use(2, 2)
    told = most_used(uses)
    assert len(told) == USES_MAX
    assert list(told)[:2] == ["client:small", f"client:{USES_MAX}"]


def test_a_meter_says_what_was_taken_of_it() -> None:
    now = [100.0]
    quotas = ClientQuotas(lambda: now[0])
    quotas.follow_snapshot(
        QuotaSnapshot({(QuotaKind.USER, "*"): Quota(kind=QuotaKind.USER, name="*", messages_in=10, connections=4)})
    )
    quotas.add_connection("alice", "c")
    quotas.admit_messages("alice", "t", "c", 2, 10)
    told = read_uses(quotas)["user:alice"]
    assert (told["refused"], told["connections"]) == (0, 1)
    assert told["share"] == {"messages_in": 10, "connections": 4}
    assert told["rate"]["messages_in"] > 0
