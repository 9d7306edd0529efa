"""When a delayed message is due, of the nanoseconds that its producer gave."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.activities.send_special import _due_ms


@given(st.integers(0, 10**10), st.integers(0, 999_999_999))
def test_a_message_is_due_in_the_first_millisecond_that_is_not_before_its_time(seconds: int, nanos: int) -> None:
    properties = pb.SystemProperties(delivery_timestamp={"seconds": seconds, "nanos": nanos})
    early_ns = seconds * 1_000_000_000 + nanos - _due_ms(properties, 0) * 1_000_000
    assert -1_000_000 < early_ns <= 0
