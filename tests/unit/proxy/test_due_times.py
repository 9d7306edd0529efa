"""Times that clients give, in the milliseconds that brokers know; when a delayed message is due by them."""

from hypothesis import example, given
from hypothesis import strategies as st

from ternmq_protos.pool import Timestamp
from ternmq_proxy.fronts.grpc.activities.times import time_ms
from ternmq_proxy.operations.send_special import due_time_ms


@given(st.integers(0, 10**19))
def test_a_message_is_due_in_the_first_millisecond_that_is_not_before_its_time(delivery_ns: int) -> None:
    early_ns = delivery_ns - due_time_ms(delivery_ns) * 1_000_000
    assert -1_000_000 < early_ns <= 0


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
@example(2**63 - 1, 0)
@example(-(2**63), 0)
def test_every_time_can_be_told_to_a_broker_and_to_look_for_the_next_one(seconds: int, nanos: int) -> None:
    told = time_ms(Timestamp(seconds=seconds, nanos=nanos))
    assert -(2**63) <= told < 2**63 - 1
    exact = seconds * 1000 + nanos // 1_000_000
    assert told == exact or (abs(exact) > 2**62 and (told > 0) == (exact > 0))
