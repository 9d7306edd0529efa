"""How a limit of what may be in flight is divided among brokers."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_proxy.message_service.cluster.receives.receiving import _part_of

NAMES = st.lists(st.text("abcdef", min_size=1), min_size=1, max_size=6, unique=True)


@given(limit=st.integers(1, 100), brokers=NAMES)
def test_the_parts_are_the_limit_and_no_broker_is_left_with_nothing(limit: int, brokers: list[str]) -> None:
    parts = [_part_of(limit, broker, brokers) for broker in brokers]
    assert all(part is not None and part >= 1 for part in parts)
    assert sum(part or 0 for part in parts) == max(limit, len(brokers))
    assert max(part or 0 for part in parts) - min(part or 0 for part in parts) <= 1


def test_no_limit_has_no_parts() -> None:
    assert _part_of(None, "a", ["a", "b"]) is None
