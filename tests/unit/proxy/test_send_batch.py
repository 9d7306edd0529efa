"""A long send that is taken from its bytes stores and answers just what the one by protobuf does."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.errors import MessagingError
from ternmq_common.limits import RequestLimits
from ternmq_common.shard.model import AppendedMessage, NewMessage, QueueRef
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.fronts.grpc.activities import send_batch as module
from ternmq_proxy.fronts.grpc.activities.send_batch import send_batch
from ternmq_proxy.fronts.grpc.activities.send_message import send_message
from ternmq_proxy.services import Services
from tests.unit.proxy.test_begun_sends import (
    AWAY,
    CALL,
    MESSAGES,
    ONE,
    ORDINARY,
    Stored,
    in_a_lite_topic,
    in_order,
    meaning,
    services,
)

GROUPS = [f"group-{number}" for number in range(9)]
KINDS = st.sampled_from(["normal", "fifo", "lite"])


def by_queue(stored: list[tuple[QueueRef, list[NewMessage]]]) -> list[tuple[QueueRef, list[NewMessage]]]:
    return sorted(stored, key=lambda each: (each[0].topic, each[0].queue_id))


def is_taken(data: bytes) -> bool:
    """Whether it was taken from its bytes; AssertionError if that does something else than the way by protobuf."""
    made, stored = services()
    answered = asyncio.run(send_batch(data, CALL, made))
    if answered is None:
        assert stored.stored == []
        return False
    answer, status = answered
    assert status.code == pb.OK
    other, by_protobuf = services()
    expected = asyncio.run(send_message(rpc.SendMessageRequest.FromString(data), CALL, other))
    assert rpc.SendMessageResponse.FromString(answer) == expected
    assert meaning(by_queue(stored.stored)) == meaning(by_queue(by_protobuf.stored))
    return True


def of_kind(kind: str, messages: Sequence[pb.Message], lanes: Sequence[str]) -> bytes:
    """A request whose messages are of these message groups or lite topics, if they are to have some."""
    if kind != "normal":
        make = in_order if kind == "fifo" else in_a_lite_topic
        messages = [make(message, lane) for message, lane in zip(messages, lanes, strict=False)]
    return rpc.SendMessageRequest(messages=messages).SerializeToString()


@given(KINDS, st.lists(ORDINARY, min_size=1, max_size=5), st.lists(st.sampled_from(GROUPS), min_size=5, max_size=5))
def test_what_official_clients_send_is_taken_from_its_bytes(
    kind: str, messages: list[pb.Message], lanes: list[str]
) -> None:
    assert is_taken(of_kind(kind, messages, lanes))


@given(st.lists(MESSAGES, min_size=1, max_size=4))
def test_any_messages_have_the_same_outcome_both_ways(messages: list[pb.Message]) -> None:
    is_taken(rpc.SendMessageRequest(messages=messages).SerializeToString())


@given(KINDS, st.lists(ORDINARY, min_size=1, max_size=3), st.data())
def test_any_bytes_have_the_same_outcome_both_ways(kind: str, messages: list[pb.Message], data: st.DataObject) -> None:
    damaged = bytearray(of_kind(kind, messages, GROUPS))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        change = data.draw(st.sampled_from(["set", "add", "drop"]))
        damaged[at : at + (change != "add")] = b"" if change == "drop" else bytes((data.draw(st.integers(0, 255)),))
    is_taken(bytes(damaged))


@pytest.mark.parametrize("kind", ["normal", "fifo", "lite"])
def test_a_thousand_messages_are_taken(kind: str) -> None:
    assert is_taken(of_kind(kind, [ONE] * 1000, GROUPS * 112))


def mixed() -> dict[str, list[pb.Message]]:
    large = pb.Message(topic=ONE.topic, system_properties=ONE.system_properties, body=bytes(256 << 10))
    return {
        "none": [],
        "more than there may be": [ONE] * (RequestLimits().entries_max + 1),
        "two topics": [ONE, pb.Message(topic={"name": "else"}, body=b"x", system_properties={"message_id": "m"})],
        "FIFO and not": [in_order(ONE, "g"), in_order(ONE, "")],
        "a large one": [ONE, large],
        "a topic that is not known": [
            pb.Message(topic={"name": "new"}, body=b"x", system_properties={"message_id": "m"})
        ],
        "a topic of another type": [
            pb.Message(topic={"name": "fifo"}, body=b"x", system_properties={"message_id": "m"})
        ],
    }


@pytest.mark.parametrize("what", mixed())
def test_what_is_not_ordinary_is_left_to_protobuf(what: str) -> None:
    assert not is_taken(rpc.SendMessageRequest(messages=mixed()[what]).SerializeToString())


def test_normal_messages_that_are_refused_are_refused_as_a_whole() -> None:
    made, _ = services(AWAY)
    with pytest.raises(MessagingError, match=AWAY.message):
        asyncio.run(send_batch(of_kind("normal", [ONE] * 40, GROUPS), CALL, made))


class PartlyStored(Stored):
    """Refuses what is for one of the queues."""

    def __init__(self, refused: int) -> None:
        super().__init__()
        self._refused = refused

    def append_nowait(self, queue: QueueRef, messages: Sequence[NewMessage], done: Any) -> None:  # noqa: ANN401
        if queue.queue_id == self._refused:
            done(0, AWAY)
        else:
            super().append_nowait(queue, messages, done)

    async def append(self, queue: QueueRef, messages: Sequence[NewMessage]) -> list[AppendedMessage]:
        if queue.queue_id == self._refused:
            raise AWAY
        return await super().append(queue, messages)


def with_messages(stored: Stored) -> Services:
    made, _ = services()
    made.messages = stored  # type: ignore[assignment, misc]
    return made


def test_each_message_of_a_fifo_topic_says_what_became_of_it() -> None:
    data = of_kind("fifo", [ONE] * 9, GROUPS)
    answered = asyncio.run(send_batch(data, CALL, with_messages(PartlyStored(1))))
    assert answered is not None
    expected = asyncio.run(send_message(rpc.SendMessageRequest.FromString(data), CALL, with_messages(PartlyStored(1))))
    assert rpc.SendMessageResponse.FromString(answered[0]) == expected
    assert {entry.status.code for entry in expected.entries} == {pb.OK, pb.HA_NOT_AVAILABLE}
    assert answered[1] == expected.status


def test_others_have_their_turns_while_a_long_request_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []

    class Turns:
        async def next_turn(self) -> None:
            steps.append(1)

    monkeypatch.setattr(module, "WorkTurns", Turns)
    assert is_taken(of_kind("normal", [ONE] * 1000, GROUPS))
    assert len(steps) >= 1000 // 16
