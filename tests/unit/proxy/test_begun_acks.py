"""An acknowledgement that is begun at once settles and answers just what the one in a coroutine does."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.errors import MessagingError
from ternmq_common.limits import RequestLimits
from ternmq_common.names import lite_queue_topic
from ternmq_common.shard.model import SettleOutcome
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.access.control import AccessControl
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.activities.settle_message import ack_message, begin_ack
from ternmq_proxy.services import Services
from tests.support.all_parts import AllParts
from tests.support.handle_keys import handle_form, made_up_handles

CALL = Call(client_id="client", peer="127.0.0.1:9")
GROUP, TOPIC = "readers", "orders"
SETTLED = list(SettleOutcome)


LITE = "a"
LITE_QUEUE = lite_queue_topic(TOPIC, LITE)


def handle(number: int, topic: str = TOPIC) -> str:
    return handle_form(GROUP, topic).encode_handle(ReceiptHandle("broker-0", 0, number, 1, 1)).decode()


ENTRIES = st.builds(
    rpc.AckMessageEntry,
    message_id=st.text(max_size=200),
    receipt_handle=st.integers(0, 2**40).map(handle) | st.sampled_from(["", "2garbled"]),
)
WHOLE = st.builds(rpc.AckMessageEntry, message_id=st.text(max_size=12), receipt_handle=st.integers(0, 9).map(handle))


OF_LITE = st.builds(
    rpc.AckMessageEntry,
    message_id=st.text(max_size=12),
    receipt_handle=st.integers(0, 9).map(lambda number: handle(number, LITE_QUEUE)),
    lite_topic=st.just(LITE),
)
OF_ANY = st.builds(
    rpc.AckMessageEntry,
    message_id=st.text(max_size=12),
    receipt_handle=st.builds(handle, st.integers(0, 9), st.sampled_from([TOPIC, LITE_QUEUE])),
    lite_topic=st.sampled_from([None, "", LITE, "b"]),
)


class Settling(AllParts):
    """A message service by which a handle's fate is in its offset; `error`: nothing is sure."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.settled: list[tuple[str, ReceiptHandle]] = []
        self.let_go: list[tuple[str, ReceiptHandle]] = []

    async def acknowledge(self, group: str, topic: str, handles: Sequence[ReceiptHandle]) -> list[SettleOutcome]:
        assert group == GROUP
        assert topic in (TOPIC, LITE_QUEUE, lite_queue_topic(TOPIC, "b"))
        if self._error is not None:
            raise self._error
        self.settled += [(topic, each) for each in handles]
        return [SETTLED[each.queue_offset % 3] for each in handles]

    def acknowledge_nowait(self, group: str, topic: str, handles: Sequence[ReceiptHandle], done: Any) -> None:  # noqa: ANN401
        try:
            outcomes = ended(self.acknowledge(group, topic, handles))
        except MessagingError as error:
            done(None, error)
        else:
            done(outcomes, None)


def ended(coroutine: Any) -> Any:  # noqa: ANN401
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("nothing here is waited for")


def services(error: Exception | None = None) -> tuple[Services, Settling]:
    settling = Settling(error)

    def let_go(client_id: str, group: str, topic: str, given: Sequence[ReceiptHandle]) -> None:
        assert (client_id, group) == (CALL.client_id, GROUP)
        settling.let_go += [(topic, each) for each in given]

    made = SimpleNamespace(
        access=AccessControl(),
        messages=settling,
        renewal=SimpleNamespace(release_messages=let_go),
        request_limits=RequestLimits(),
        handles=made_up_handles(),
    )
    return cast("Services", made), settling


def begun(request: rpc.AckMessageRequest, made: Services) -> tuple[rpc.AckMessageResponse, int] | None:
    answers: list[tuple[bytes, int]] = []
    if not begin_ack(request.SerializeToString(), CALL, made, lambda answer, code: answers.append((answer, code))):
        assert not answers
        return None
    ((answer, code),) = answers
    return rpc.AckMessageResponse.FromString(answer), code


def request(entries: Sequence[rpc.AckMessageEntry], group: str = GROUP) -> rpc.AckMessageRequest:
    return rpc.AckMessageRequest(group=pb.Resource(name=group), topic=pb.Resource(name=TOPIC), entries=entries)


def check_same_later(
    entries: list[rpc.AckMessageEntry], answer: tuple[rpc.AckMessageResponse, int] | None, at_once: Settling
) -> None:
    """The activity gives the same answer and does the same."""
    made, later = services()
    response = ended(ack_message(request(entries), CALL, made))
    assert answer == (response, response.status.code)
    assert (at_once.settled, at_once.let_go) == (later.settled, later.let_go)


@given(entries=st.lists(ENTRIES, min_size=1, max_size=5) | st.lists(WHOLE, min_size=1, max_size=64))
def test_both_ways_do_the_same(entries: list[rpc.AckMessageEntry]) -> None:
    made, at_once = services()
    answer = begun(request(entries), made)
    if answer is None:
        assert not at_once.settled
        assert any(entry.receipt_handle in ("", "2garbled") for entry in entries)
        return
    check_same_later(entries, answer, at_once)


@given(entries=st.lists(OF_LITE, min_size=1, max_size=5))
def test_those_of_one_lite_topic_are_begun_at_once(entries: list[rpc.AckMessageEntry]) -> None:
    made, at_once = services()
    answer = begun(request(entries), made)
    assert {topic for topic, _ in at_once.settled} == {LITE_QUEUE}
    check_same_later(entries, answer, at_once)


@given(entries=st.lists(OF_ANY, min_size=1, max_size=4))
def test_any_lite_topics_have_the_same_outcome_both_ways(entries: list[rpc.AckMessageEntry]) -> None:
    made, at_once = services()
    answer = begun(request(entries), made)
    if answer is None:
        assert not at_once.settled
        return
    check_same_later(entries, answer, at_once)


def test_an_error_is_told_as_a_status_and_nothing_is_let_go() -> None:
    made, settling = services(MessagingError(pb.HA_NOT_AVAILABLE, "its broker is away"))
    entry = rpc.AckMessageEntry(message_id="id", receipt_handle=handle(0))
    answer = begun(request([entry]), made)
    status = pb.Status(code=pb.HA_NOT_AVAILABLE, message="its broker is away")
    assert answer == (rpc.AckMessageResponse(status=status), pb.HA_NOT_AVAILABLE)
    assert not settling.let_go


def test_a_name_that_no_group_has_is_refused() -> None:
    made, settling = services()
    with pytest.raises(MessagingError) as caught:
        begun(request([rpc.AckMessageEntry(receipt_handle=handle(0))], group="no/group"), made)
    assert caught.value.code == pb.ILLEGAL_CONSUMER_GROUP
    assert not settling.settled


@pytest.mark.parametrize("count", [0, 65])
def test_none_and_very_many_are_left_to_the_coroutine(count: int) -> None:
    made, settling = services()
    entries = [rpc.AckMessageEntry(receipt_handle=handle(number)) for number in range(count)]
    assert begun(request(entries), made) is None
    assert not settling.settled
