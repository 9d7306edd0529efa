"""RecallMessage: which handles are good, and what is never delivered (`sending.md, Recall`)."""

import base64

import pytest

from ternmq_common.catalog.handle_keys import HandleKeys
from ternmq_common.limits import DAY_MS
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import RawClient, code, message, moment
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
POLL_S = 10.0


async def recall(client: RawClient, topic: str, handle: str) -> rpc.RecallMessageResponse:
    answer = await client.call("RecallMessage", topic={"name": topic}, recall_handle=handle)
    assert isinstance(answer, rpc.RecallMessageResponse)
    return answer


async def scheduled(client: RawClient, topic: str, body: bytes = b"body", *, seconds: float = 60) -> str:
    """The recall handle of a message that is due in so many seconds."""
    due = moment(await client.server_ms() + round(seconds * 1000))
    handle: str = (await client.send(topic, body, delivery_timestamp=due)).entries[0].recall_handle
    return handle


async def handle_in(
    client: RawClient, topic: str, seconds: float, keys: HandleKeys, *, broker: str = "broker-0"
) -> str:
    """A handle as the server gives them, for a message that was never sent."""
    due_ms = await client.server_ms() + round(seconds * 1000)
    return RecallHandle(topic, broker, due_ms, "no-such-message").encode_handle(keys)


async def test_a_recalled_message_never_comes_and_its_neighbour_does(
    timed: RawClient, timed_keys: HandleKeys, reminders: str, group: str
) -> None:
    handle = await scheduled(timed, reminders, b"recalled")
    await scheduled(timed, reminders, b"neighbour")
    answer = await recall(timed, reminders, handle)
    assert code(answer) == "OK"
    assert answer.message_id == RecallHandle.decode_handle(handle, timed_keys).message_id
    await timed.advance(3600)
    received = await timed.receive(reminders, group, poll_s=POLL_S)
    assert received.bodies == [b"neighbour"]
    assert (await timed.receive(reminders, group)).code == "MESSAGE_NOT_FOUND"


async def test_any_client_may_recall_and_repeat_it(timed: RawClient, reminders: str, group: str) -> None:
    handle = await scheduled(timed, reminders)
    async with RawClient(timed.endpoint) as other:
        for _ in range(3):
            assert code(await recall(other, reminders, handle)) == "OK"
    await timed.advance(60)
    assert (await timed.receive(reminders, group)).code == "MESSAGE_NOT_FOUND"


async def test_padding_is_optional(timed: RawClient, reminders: str) -> None:
    for body in (b"1", b"22", b"333"):  # handles of several lengths
        handle = await scheduled(timed, reminders, body)
        assert code(await recall(timed, reminders, handle + "=" * (-len(handle) % 4))) == "OK"


async def test_a_message_of_a_level_is_recalled_as_any_other(timed: RawClient, reminders: str, group: str) -> None:
    [entry] = (await timed.call("SendMessage", messages=[message(reminders, properties={"DELAY": "5"})])).entries
    assert code(await recall(timed, reminders, entry.recall_handle)) == "OK"
    await timed.advance(60)
    assert (await timed.receive(reminders, group)).code == "MESSAGE_NOT_FOUND"


@pytest.mark.parametrize("seconds", [-1, -3600, 366 * DAY_MS / 1000])
async def test_a_time_at_which_nothing_waits_is_a_bad_request(
    timed: RawClient, timed_keys: HandleKeys, reminders: str, seconds: float
) -> None:
    assert code(await recall(timed, reminders, await handle_in(timed, reminders, seconds, timed_keys))) == "BAD_REQUEST"


async def test_a_missing_topic_conflicts_and_is_not_made(
    timed: RawClient, timed_keys: HandleKeys, new_topic: str
) -> None:
    handle = await handle_in(timed, new_topic, 60, timed_keys)
    assert code(await recall(timed, new_topic, handle)) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
    assert code(await timed.admin("DescribeTopic", name=new_topic)) == "TOPIC_NOT_FOUND"


@pytest.mark.parametrize("kind", [pb.NORMAL, pb.FIFO, pb.TRANSACTION, pb.PRIORITY, pb.LITE])
async def test_a_topic_of_another_type_conflicts(
    timed: RawClient, timed_keys: HandleKeys, new_topic: str, kind: "pb.MessageType"
) -> None:
    await timed.create_topic(new_topic, kind=kind)
    handle = await handle_in(timed, new_topic, 60, timed_keys)
    assert code(await recall(timed, new_topic, handle)) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "v1 {topic} broker-0 {due} id",
        "v2 {topic} broker-0 {due} id",
        "v2 {topic} broker-0 {due} id 0100112233445566778899",
        "v2 {topic} broker-0 id",
        "v2 {topic} broker-0 soon id",
        "v2 {topic} broker-0 -{due} id",
        "v2 {topic} broker-0 {due} ",
        "v2  broker-0 {due} id",
        "v2",
        "",
    ],
)
async def test_a_handle_that_is_none_is_a_bad_request(timed: RawClient, reminders: str, text: str | None) -> None:
    due_ms = await timed.server_ms() + 60_000
    handle = "not base64!"
    if text is not None:
        handle = base64.urlsafe_b64encode(text.format(topic=reminders, due=due_ms).encode()).decode()
    assert code(await recall(timed, reminders, handle)) == "BAD_REQUEST"


async def test_a_handle_of_another_topic_is_a_bad_request_and_recalls_nothing(
    timed: RawClient, reminders: str, new_topic: str, group: str
) -> None:
    await timed.create_topic(new_topic, kind=pb.DELAY)
    handle = await scheduled(timed, reminders)
    assert code(await recall(timed, new_topic, handle)) == "BAD_REQUEST"
    await timed.advance(60)
    assert (await timed.receive(reminders, group, poll_s=POLL_S)).bodies == [b"body"]


async def test_a_handle_of_a_broker_that_is_not_there_is_a_bad_request(
    timed: RawClient, timed_keys: HandleKeys, reminders: str
) -> None:
    handle = await handle_in(timed, reminders, 60, timed_keys, broker="broker-9")
    assert code(await recall(timed, reminders, handle)) == "BAD_REQUEST"
