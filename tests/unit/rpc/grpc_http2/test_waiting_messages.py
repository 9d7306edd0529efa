"""What waits comes out in the order in which it came."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from ternmq_rpc.grpc_http2.messages import WaitingMessages


@given(steps=st.lists(st.none() | st.binary(max_size=4) | st.just("clear"), max_size=60))
def test_they_are_as_in_a_deque(steps: "list[bytes | str | None]") -> None:
    waiting, expected = WaitingMessages(), deque[bytes]()
    for step in steps:
        if isinstance(step, bytes):
            waiting.append(step)
            expected.append(step)
        elif step is not None:
            waiting.clear()
            expected.clear()
        elif expected:
            assert waiting.first_message == expected[0]
            assert waiting.popleft() == expected.popleft()
        assert (len(waiting), list(waiting)) == (len(expected), list(expected))
