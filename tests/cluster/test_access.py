"""Access control of a cluster: what one proxy is told of users, the others know within seconds."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import ternmq
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import RawClient, code, message
from tests.support.stack import config_options
from tests.support.until import until_answered
from tests.support.users import SECRET, access_settings, signed

pytestmark = [pytest.mark.cluster]

TOPIC = "orders"
# A proxy reads the registry every second, and looks at calls that go on as often.
WITHIN_S = 15
ROOT = ternmq.Credentials("root", SECRET)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    options = config_options(tmp_path, access_settings())
    with ClusterProcesses(tmp_path, brokers=1, proxies=2, proxy_options=options) as processes:
        yield processes


async def test_a_user_who_is_deleted_at_one_proxy_is_nobody_at_the_other(cluster: ClusterProcesses) -> None:
    one, other = cluster.proxies
    request = rpc.SendMessageRequest(messages=[message(TOPIC)])
    async with (
        ternmq.Admin(one.grpc, credentials=ROOT) as admin,
        RawClient(other.grpc, metadata=signed("alice", "sender")) as sender,
        RawClient(other.grpc, metadata=signed("alice", "listener")) as listener,
    ):
        await admin.create_topic(TOPIC)
        await admin.create_user("alice", SECRET)
        await admin.put_policy("alice", f"Topic:{TOPIC}", "Pub")

        async def sent() -> str:
            return code(await sender.call("SendMessage", request))

        async with asyncio.timeout(WITHIN_S):
            await until_answered(sent, "OK")
        stream = await listener.publish_to(pb.Resource(name=TOPIC))
        await admin.delete_user("alice")
        async with asyncio.timeout(WITHIN_S):
            await until_answered(sent, "UNAUTHORIZED")
            assert code(await stream.read()) == "UNAUTHORIZED"
    log = "".join(each.log.read_text() for each in (*cluster.brokers, *cluster.proxies))
    assert SECRET not in log
