"""The broker's own topics are closed: every call that names a topic refuses them (`overview.md, Names`)."""

import uuid

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from ternmq_common.names import SYSTEM_TOPICS, TRACE_TOPIC
from ternmq_protos.v2 import admin_pb2 as published_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.admin_conformance import ROWS, Names
from tests.support.embedded import MESSAGING, PUBLISHED, Embedded, Proto, RawClient, code, duration, message
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
NAMES = [*sorted(SYSTEM_TOPICS), "rmq_sys_anything"]
GROUP = {"name": f"group-{uuid.uuid4().hex[:12]}"}
HANDLE = {"receipt_handle": "handle", "message_id": "id"}

MESSAGING_CALLS: dict[str, dict[str, Proto]] = {
    "QueryRoute": {"topic": {"name": ...}},
    "SendMessage": {"messages": [message("...")]},
    "QueryAssignment": {"topic": {"name": ...}, "group": GROUP},
    "ReceiveMessage": {
        "message_queue": {"topic": {"name": ...}},
        "group": GROUP,
        "batch_size": 1,
        "invisible_duration": duration(30),
    },
    "AckMessage": {"topic": {"name": ...}, "group": GROUP, "entries": [HANDLE]},
    "ChangeInvisibleDuration": {"topic": {"name": ...}, "group": GROUP, "receipt_handle": "handle"},
    "ForwardMessageToDeadLetterQueue": {"topic": {"name": ...}, "group": GROUP, "receipt_handle": "handle"},
    "EndTransaction": {"topic": {"name": ...}, "transaction_id": "id@broker-0@1", "resolution": pb.COMMIT},
    "RecallMessage": {"topic": {"name": ...}, "recall_handle": "handle"},
    "PullMessage": {"message_queue": {"topic": {"name": ...}}, "group": GROUP, "batch_size": 1},
    "UpdateOffset": {"message_queue": {"topic": {"name": ...}}, "group": GROUP},
    "GetOffset": {"message_queue": {"topic": {"name": ...}}, "group": GROUP},
    "QueryOffset": {"message_queue": {"topic": {"name": ...}}},
}
# ListTopics only searches for it.
ADMIN_CALLS = [
    name
    for name, row in ROWS.items()
    if name != "ListTopics" and '"the-topic"' in str(row.request(Names("the-topic", "the-group", "the-user")))
]
PUBLISHED_CALLS: dict[str, dict[str, Proto]] = {
    "DescribeTopicStatus": {"topic": {"name": ...}},
    "ListSubscription": {"topic": {"name": ...}},
    "DescribeSubscription": {"topic": {"name": ...}},
    "DescribeGroupAccumulation": {"topics": [{"name": ...}], "group": {"name": "{group}"}},
    "ListConsumerConnection": {"topic": {"name": ...}, "group": {"name": "{group}"}},
    "ResetGroupOffset": {"topic": {"name": ...}, "group": {"name": "{group}"}, "reset_timestamp": {"seconds": 1}},
    "QueryMessage": {"topic": {"name": ...}},
    "AdminSendMessage": {"topic": {"name": ...}, "body": b"x"},
    "GetTopicRoute": {"topic": {"name": ...}},
    "QueryTimeSpan": {"topics": [{"name": ...}], "group": {"name": "{group}"}},
}
TOPICLESS_PUBLISHED = {
    *("ChangeLogLevel", "GetConsumerRunningInfo", "GetProxyRuntimeStats"),
    *("DeleteSubscription", "PrintThreadStackTrace", "VerifyMessage"),  # which are not served
}
TOPICLESS = {"Heartbeat", "NotifyClientTermination", "Telemetry", "SyncLiteSubscription"}


def filled(fields: Proto, topic: str, group: str) -> Proto:
    """The fields with the topic's and the group's name where they are to be."""
    if isinstance(fields, dict):
        return {name: filled(value, topic, group) for name, value in fields.items()}
    if isinstance(fields, list):
        return [filled(value, topic, group) for value in fields]
    if isinstance(fields, pb.Message):
        return message(topic)
    return topic if fields is ... else group if fields == "{group}" else fields


@pytest_asyncio.fixture(autouse=True, scope="module", loop_scope="session")
async def trace_topic(server: Embedded) -> None:
    """One of them exists: clients of RocketMQ 4 send their traces there."""
    async with await RemotingClient.connect(server.remoting) as client:
        assert (await client.send(TRACE_TOPIC, b"trace")).code == 0


async def first_code(client: RawClient, name: str, request: Proto) -> str:
    if MESSAGING.methods_by_name[name].server_streaming:
        items = [item async for item in client.stream(name, request)]
        return code(items[0])
    return code(await client.call(name, request))


async def test_the_tables_name_every_call() -> None:
    assert {method.name for method in MESSAGING.methods} == MESSAGING_CALLS.keys() | TOPICLESS
    assert {method.name for method in PUBLISHED.methods} == PUBLISHED_CALLS.keys() | TOPICLESS_PUBLISHED


@pytest.mark.parametrize("name", MESSAGING_CALLS)
async def test_no_call_of_clients_reaches_a_system_topic(client: RawClient, name: str) -> None:
    for topic in NAMES:
        request = getattr(rpc, MESSAGING.methods_by_name[name].input_type.name)
        outcome = await first_code(client, name, request(**filled(MESSAGING_CALLS[name], topic, "")))
        assert (topic, outcome) == (topic, "ILLEGAL_TOPIC")


@pytest.mark.parametrize("name", ADMIN_CALLS)
async def test_no_call_of_operators_reaches_a_system_topic(client: RawClient, name: str, group: str) -> None:
    await client.admin("CreateGroup", group={"name": group})
    for topic in NAMES:
        answer = await client.admin(name, ROWS[name].request(Names(topic, group, "nobody")))
        assert (topic, code(answer)) == (topic, "ILLEGAL_TOPIC")


@pytest.mark.parametrize("name", PUBLISHED_CALLS)
async def test_no_call_of_the_published_service_reaches_a_system_topic(
    client: RawClient, name: str, group: str
) -> None:
    await client.create_group(group)
    for topic in NAMES:
        request = getattr(published_pb2, PUBLISHED.methods_by_name[name].input_type.name)
        answer = await client.published(name, request(**filled(PUBLISHED_CALLS[name], topic, group)))
        assert (topic, code(answer)) == (topic, "ILLEGAL_TOPIC")


@pytest.mark.parametrize("topic", NAMES)
async def test_no_producer_publishes_to_a_system_topic(client: RawClient, topic: str) -> None:
    stream = client.telemetry()
    settings = pb.Settings(client_type=pb.PRODUCER, publishing={"topics": [{"name": topic}]})
    await stream.write(rpc.TelemetryCommand(settings=settings))
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await stream.read()
    assert ended.value.code() is grpc.StatusCode.INVALID_ARGUMENT
