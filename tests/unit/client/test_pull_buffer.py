"""The buffer of a pull consumer, without a server: whatever is done in whatever order."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq import MessageView
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.route import RouteQueue
from ternmq.pull.pull_buffer import PullBuffer
from ternmq.pull.pull_queue import PullQueue
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.client.scripted_server import TOPIC, stored_message

ENDPOINTS = Endpoints.parse("127.0.0.1:8081")
QUEUES = 3
QUEUE_IDS = st.integers(0, QUEUES - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pull"), QUEUE_IDS, st.integers(0, 5)),
        st.tuples(st.just("take"), st.integers(1, 8), st.just(0)),
        st.tuples(st.just("step"), st.just(0), st.just(0)),
        st.tuples(st.just("pause"), QUEUE_IDS, st.integers(0, 1)),
    ),
    max_size=60,
)


def pulled_view(queue_id: int, offset: int) -> MessageView:
    message = stored_message(offset)
    message.system_properties.queue_id = queue_id
    return MessageView(message, broker="broker-a", endpoints=ENDPOINTS)


def pull(buffer: PullBuffer, state: PullQueue, skipped: int) -> None:
    """As much as there is room for, behind some messages that a filter leaves out."""
    if not state._may_pull.is_set():
        return
    first = state.pulled_offset + skipped
    views = [pulled_view(state.name.queue_id, offset) for offset in range(first, first + state.free_messages)]
    buffer.accept_pull(state, views, first + len(views))


@given(steps=STEPS, messages_max=st.integers(1, 20))
def test_every_queue_is_handed_out_in_order_and_handled_stays_behind(
    steps: list[tuple[str, int, int]], messages_max: int
) -> None:
    buffer = PullBuffer(messages_max=messages_max, bytes_max=1 << 20)
    states = buffer.grant_queues(
        RouteQueue(TOPIC, number, "broker-a", ENDPOINTS, pb.MessageQueue()) for number in range(QUEUES)
    )
    for state in states:
        state.begin_at(0, committed=None)
    handed_out, handled = [0] * QUEUES, [0] * QUEUES
    for kind, number, argument in steps:
        if kind == "pull":
            pull(buffer, states[number], argument)
        elif kind == "take":
            for view in buffer.take_messages(number):
                assert view.offset >= handed_out[view.queue_id]
                handed_out[view.queue_id] = view.offset + 1
        elif kind == "step":
            buffer.mark_handled()
            handled = [state.next_offset or 0 for state in states]
        else:
            buffer.set_paused(states[number], bool(argument))
        for state, known, handed in zip(states, handled, handed_out, strict=True):
            assert state.handled_offset is not None
            assert state.next_offset is not None
            assert known <= state.handled_offset <= state.next_offset <= state.pulled_offset
            assert handed <= state.next_offset
            assert state.buffered_messages <= max(1, messages_max // QUEUES)
            assert not (state.paused and state.buffered_messages)
        assert set(buffer._ready) == {state for state in states if state.buffered_messages}
        assert buffer._some.is_set() == bool(buffer._ready)
