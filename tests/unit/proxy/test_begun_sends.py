"""A send that is begun at once stores and answers just what the one in a coroutine does."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.catalog.handle_keys import HandleKey
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.limits import MessageLimits, RequestLimits
from ternmq_common.shard.model import AppendedMessage, HalfMessage, NewMessage, QueueRef, Topic, TopicRoute
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.access.control import AccessControl
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.activities.send_message import AT_ONCE_MAX, begin_send, send_message
from ternmq_proxy.handles import HandleForms
from ternmq_proxy.processors.sending.placement import QueuePlacement
from ternmq_proxy.processors.sending.stored_form import LAST_SECOND
from ternmq_proxy.quotas.quotas import ClientQuotas
from ternmq_proxy.services import Services
from tests.support.all_parts import AllParts

TOPIC = Topic(name="orders", type=MessageType.NORMAL, queues=4)
FIFO = Topic(name="fifo", type=MessageType.FIFO, queues=4)
LITE = Topic(name="lite", type=MessageType.LITE, queues=4)
HALVES = Topic(name="halves", type=MessageType.TRANSACTION, queues=4)
KEYS = HandleKey(1, b"k" * 32, 0), HandleKey(2, b"l" * 32, 0)
CALL = Call(client_id="client", peer="127.0.0.1:9")
TEXT = st.text(max_size=12)
STAMPS = st.builds(
    lambda seconds, nanos: {"seconds": seconds, "nanos": nanos},
    st.integers(-1, 2**38),
    st.integers(-1, 2_000_000_000),
)
SYSTEM = st.builds(
    lambda fields: pb.SystemProperties(**fields),
    st.fixed_dictionaries(
        {"message_id": TEXT},
        optional={
            "tag": TEXT,
            "keys": st.lists(TEXT, max_size=3),
            "body_digest": st.builds(lambda text: {"type": pb.CRC32, "checksum": text}, TEXT),
            "body_encoding": st.sampled_from(pb.Encoding.values()),
            "message_type": st.sampled_from([pb.NORMAL, pb.FIFO, pb.TRANSACTION, pb.LITE]),
            "born_timestamp": STAMPS,
            "born_host": TEXT,
            "store_timestamp": STAMPS,
            "store_host": TEXT,
            "receipt_handle": TEXT,
            "queue_id": st.integers(-5, 5),
            "queue_offset": st.integers(-5, 5),
            "delivery_attempt": st.integers(0, 5),
            "message_group": TEXT,
            "trace_context": TEXT,
            "lite_topic": TEXT,
            "priority": st.integers(-1, 9),
        },
    ),
)
MESSAGES = st.builds(
    lambda topic, system, body, user: pb.Message(
        topic={"name": topic}, system_properties=system, body=body, user_properties=user
    ),
    st.sampled_from(["orders"] * 5 + ["fifo", "lite", "halves", "unknown", "%RETRY%g"]),
    SYSTEM,
    st.binary(max_size=40),
    st.dictionaries(TEXT, TEXT, max_size=3),
)
WORD = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=200)
ORDINARY = st.builds(
    lambda system, body, user: pb.Message(
        topic={"name": "orders"}, system_properties=system, body=body, user_properties=user
    ),
    st.builds(
        lambda fields: pb.SystemProperties(**fields),
        st.fixed_dictionaries(
            {"message_id": WORD, "message_type": st.just(pb.NORMAL)},
            optional={
                "tag": WORD,
                "keys": st.lists(WORD, max_size=3),
                "body_digest": st.builds(lambda text: {"type": pb.CRC32, "checksum": text}, WORD),
                "body_encoding": st.just(pb.IDENTITY),
                "born_timestamp": st.builds(
                    lambda seconds, nanos: {"seconds": seconds, "nanos": nanos},
                    st.integers(0, LAST_SECOND),
                    st.integers(0, 999_999_999),
                ),
                "born_host": st.text("abc.-0", min_size=1, max_size=250),
                "queue_id": st.integers(0, 2**31 - 1),
                "trace_context": WORD,
            },
        ),
    ),
    st.binary(min_size=1, max_size=300),
    st.dictionaries(WORD, WORD, max_size=3),
)


def in_order(message: pb.Message, group: str) -> pb.Message:
    """The message as one of that message group, which clients call FIFO."""
    return changed(message, "fifo", message_group=group, message_type=pb.FIFO)


def in_a_lite_topic(message: pb.Message, name: str) -> pb.Message:
    """The message as one of that lite topic."""
    return changed(message, "lite", lite_topic=name, message_type=pb.LITE)


def as_half(message: pb.Message) -> pb.Message:
    """The message as a half message."""
    return changed(message, "halves", message_type=pb.TRANSACTION)


def changed(message: pb.Message, topic: str, **system: Any) -> pb.Message:  # noqa: ANN401 - of the field's type
    copy = pb.Message()
    copy.CopyFrom(message)
    copy.topic.name = topic
    copy.system_properties.MergeFrom(pb.SystemProperties(**system))
    return copy


class Stored(AllParts):
    """A message service that stores nothing, and remembers what it was to store; `error`: it refuses."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.stored: list[tuple[QueueRef, list[NewMessage]]] = []

    def find_route(self, topic: Topic) -> TopicRoute:
        return TopicRoute.to_one_broker(topic, "broker-0")

    def append_nowait(self, queue: QueueRef, messages: Sequence[NewMessage], done: Any) -> None:  # noqa: ANN401
        if self._error is not None:
            done(0, self._error)
            return
        self.stored.append((queue, list(messages)))
        done(7, None)

    async def append(self, queue: QueueRef, messages: Sequence[NewMessage]) -> list[AppendedMessage]:
        if self._error is not None:
            raise self._error
        self.stored.append((queue, list(messages)))
        return [AppendedMessage(message.message_id, 7 + number) for number, message in enumerate(messages)]

    async def begin_transaction(self, queue: QueueRef, half: HalfMessage) -> AppendedMessage:
        assert (half.sender, half.recovery_ms) == ("client", None)
        [appended] = await self.append(queue, [half.message])
        return AppendedMessage(appended.message_id, 7, f"{appended.message_id}@broker-0@7")

    def begin_transaction_nowait(self, queue: QueueRef, half: HalfMessage, done: Any) -> bool:  # noqa: ANN401
        if half.message.message_id == "repeated":
            return False
        if self._error is not None:
            raise self._error
        done(asyncio.run(self.begin_transaction(queue, half)), None)
        return True


class Catalog:
    def __init__(self) -> None:
        self.topics = {"orders": TOPIC, "fifo": FIFO, "lite": LITE, "halves": HALVES}

    def known_topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    async def find_accepted_types(self, name: str) -> "tuple[MessageType, ...]":
        return self.topics[name].accepted_types if name in self.topics else ()

    async def ensure_topic(self, name: str, kind: int, *, may_create: bool = True, admit: object = None) -> Topic:
        del kind, admit
        if name not in self.topics:
            raise MessagingError(pb.TOPIC_NOT_FOUND, name)
        return self.topics[name]


def services(error: Exception | None = None) -> tuple[Services, Stored]:
    stored = Stored(error)
    made = SimpleNamespace(
        access=AccessControl(),
        clock=SimpleNamespace(now_ms=lambda: 1_000_000_000_000),  # one that stands: both ways note the time
        catalog=Catalog(),
        messages=stored,
        placement=QueuePlacement(),
        quotas=ClientQuotas(),
        limits=MessageLimits(),
        request_limits=RequestLimits(),
        delay_levels_ms=(),
        handles=HandleForms(lambda: KEYS),
        inflation=None,
    )
    return cast("Services", made), stored


def in_a_coroutine(data: bytes) -> tuple[bytes, list[tuple[QueueRef, list[NewMessage]]]]:
    made, stored = services()
    answer = asyncio.run(send_message(rpc.SendMessageRequest.FromString(data), CALL, made))
    return answer.SerializeToString(), stored.stored


def meaning(stored: list[tuple[QueueRef, list[NewMessage]]]) -> list[object]:
    """What is stored, whatever the order of its fields."""
    return [
        (queue, each.tag_hash, pb.SystemProperties.FromString(each.system), pb.Message.FromString(each.rest), each.keys)
        for queue, messages in stored
        for each in messages
    ]


def begun_as_in_a_coroutine(data: bytes) -> bool:
    """Whether it was begun at once; AssertionError if it does something else then."""
    made, stored = services()
    answers: list[tuple[bytes, int]] = []
    if not begin_send(data, CALL, made, lambda answer, code: answers.append((answer, code))):
        assert (stored.stored, answers) == ([], [])
        return False
    [(answer, answered)] = answers
    assert answered == pb.OK
    expected_answer, expected = in_a_coroutine(data)
    assert answer == expected_answer
    assert meaning(stored.stored) == meaning(expected)
    return True


@given(st.lists(MESSAGES, min_size=1, max_size=3))
def test_both_ways_do_the_same(messages: list[pb.Message]) -> None:
    begun_as_in_a_coroutine(rpc.SendMessageRequest(messages=messages).SerializeToString())


@given(st.lists(ORDINARY, min_size=1, max_size=3))
def test_what_official_clients_send_is_begun_at_once(messages: list[pb.Message]) -> None:
    assert begun_as_in_a_coroutine(rpc.SendMessageRequest(messages=messages).SerializeToString())


@given(
    st.lists(ORDINARY, min_size=1, max_size=3),
    WORD.filter(lambda group: len(group.encode()) <= MessageLimits().message_group_bytes_max),
)
def test_messages_of_one_message_group_are_begun_at_once(messages: list[pb.Message], group: str) -> None:
    sent = [in_order(message, group) for message in messages]
    assert begun_as_in_a_coroutine(rpc.SendMessageRequest(messages=sent).SerializeToString())


@given(st.lists(ORDINARY, min_size=2, max_size=3), st.lists(TEXT, min_size=3, max_size=3))
def test_any_message_groups_have_the_same_outcome_both_ways(messages: list[pb.Message], groups: list[str]) -> None:
    sent = [in_order(message, group) for message, group in zip(messages, groups, strict=False)]
    begun_as_in_a_coroutine(rpc.SendMessageRequest(messages=sent).SerializeToString())


@given(st.lists(ORDINARY, min_size=1, max_size=3), st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True))
def test_messages_of_one_lite_topic_are_begun_at_once(messages: list[pb.Message], name: str) -> None:
    sent = [in_a_lite_topic(message, name) for message in messages]
    assert begun_as_in_a_coroutine(rpc.SendMessageRequest(messages=sent).SerializeToString())


@given(st.lists(ORDINARY, min_size=2, max_size=3), st.lists(TEXT | st.just("a"), min_size=3, max_size=3))
def test_any_lite_topics_have_the_same_outcome_both_ways(messages: list[pb.Message], names: list[str]) -> None:
    sent = [in_a_lite_topic(message, name) for message, name in zip(messages, names, strict=False)]
    begun_as_in_a_coroutine(rpc.SendMessageRequest(messages=sent).SerializeToString())


@given(ORDINARY)
def test_a_half_message_is_begun_at_once(message: pb.Message) -> None:
    assert begun_as_in_a_coroutine(rpc.SendMessageRequest(messages=[as_half(message)]).SerializeToString())


@given(ORDINARY, st.sampled_from(["message_group", "lite_topic", "priority", "orphaned_transaction_recovery_duration"]))
def test_a_half_message_with_more_is_left_to_the_coroutine(message: pb.Message, name: str) -> None:
    more: Any = {"priority": 3, "orphaned_transaction_recovery_duration": {"seconds": 5}}.get(name, "g")
    half = changed(as_half(message), "halves", **{name: more})
    assert not begun_as_in_a_coroutine(rpc.SendMessageRequest(messages=[half]).SerializeToString())


@pytest.mark.parametrize("others", [[], ["orders"], ["halves"]])
def test_a_repeated_half_message_and_several_are_left_to_the_coroutine(others: list[str]) -> None:
    half = as_half(changed(ONE, "halves", message_id="m" if others else "repeated"))
    second = [changed(half if name == "halves" else ONE, name) for name in others]
    assert not begun_as_in_a_coroutine(rpc.SendMessageRequest(messages=[half, *second]).SerializeToString())
    assert not begun_as_in_a_coroutine(rpc.SendMessageRequest(messages=[*second, half]).SerializeToString())


def test_a_half_message_that_was_not_stored_is_refused_in_its_entry() -> None:
    request = rpc.SendMessageRequest(messages=[as_half(ONE)])
    answer = answer_at_once(request, AWAY)
    assert [entry.status.code for entry in answer.entries] == [pb.HA_NOT_AVAILABLE]
    made, _ = services(AWAY)
    assert answer == asyncio.run(send_message(request, CALL, made))


AWAY = MessagingError(pb.HA_NOT_AVAILABLE, "its broker is away")
ONE = pb.Message(topic={"name": "orders"}, body=b"x", system_properties={"message_id": "m"})


def answer_at_once(request: rpc.SendMessageRequest, error: Exception) -> rpc.SendMessageResponse:
    answers: list[bytes] = []
    made, _ = services(error)
    assert begin_send(request.SerializeToString(), CALL, made, lambda answer, _: answers.append(answer))
    return rpc.SendMessageResponse.FromString(*answers)


def test_what_was_not_stored_is_told_for_all_of_a_normal_request() -> None:
    answer = answer_at_once(rpc.SendMessageRequest(messages=[ONE, ONE]), AWAY)
    assert answer == rpc.SendMessageResponse(status={"code": pb.HA_NOT_AVAILABLE, "message": "its broker is away"})


def test_what_was_not_stored_of_a_message_group_is_told_for_each() -> None:
    request = rpc.SendMessageRequest(messages=[in_order(ONE, "g"), in_order(ONE, "g")])
    answer = answer_at_once(request, AWAY)
    assert [entry.status.code for entry in answer.entries] == [pb.HA_NOT_AVAILABLE] * 2
    made, _ = services(AWAY)
    assert answer == asyncio.run(send_message(request, CALL, made))


@given(st.lists(ORDINARY, min_size=1, max_size=2), st.data())
def test_both_ways_do_the_same_with_any_bytes(messages: list[pb.Message], data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["normal", "fifo", "lite", "half"]))
    if kind == "half":
        messages = [as_half(messages[0])]
    elif kind != "normal":
        make = in_order if kind == "fifo" else in_a_lite_topic
        messages = [make(message, "group") for message in messages]
    damaged = bytearray(rpc.SendMessageRequest(messages=messages).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        change = data.draw(st.sampled_from(["set", "add", "drop"]))
        damaged[at : at + (change != "add")] = b"" if change == "drop" else bytes((data.draw(st.integers(0, 255)),))
    begun_as_in_a_coroutine(bytes(damaged))


@pytest.mark.parametrize("count", [0, AT_ONCE_MAX + 1])
def test_none_and_many_are_left_to_the_coroutine(count: int) -> None:
    one = pb.Message(topic={"name": "orders"}, body=b"x", system_properties={"message_id": "m"})
    made, stored = services()
    data = rpc.SendMessageRequest(messages=[one] * count).SerializeToString()
    assert not begin_send(data, CALL, made, lambda *_: None)
    assert stored.stored == []


def test_an_answer_reads_as_protobuf_writes_it() -> None:
    one = pb.Message(topic={"name": "orders"}, body=b"x", system_properties={"message_id": "m"})
    answers: list[bytes] = []
    made, _ = services()
    data = rpc.SendMessageRequest(messages=[one]).SerializeToString()
    assert begin_send(data, CALL, made, lambda answer, _: answers.append(answer))
    ok = {"code": pb.OK, "message": "OK"}
    entry = {"status": ok, "message_id": "m", "transaction_id": "m", "offset": 7}
    expected = rpc.SendMessageResponse(status=ok, entries=[entry])
    assert answers == [expected.SerializeToString()]
