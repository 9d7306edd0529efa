"""PostgreSQL is away, and brokers and proxies die: they come back with their copies of the registry, serve what they
know, and join when it is there again."""

import asyncio
import json
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ternmq
from ternmq_common.clock import now_ms
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_registry.copies.copy_file import CopyFile
from ternmq_registry.sql.database import registry_identity
from tests.cluster.test_registry_outage import outage
from tests.cluster.test_seeing import metrics_of
from tests.cluster.watching import (
    consumed,
    eventually,
    health,
    in_routes,
    send_each,
    sent_code,
    serving,
    stored,
)
from tests.support.cluster_processes import BrokerProcess, ClusterProcesses, MemberProcess
from tests.support.embedded import RawClient, code, message
from tests.support.stack import config_options
from tests.support.users import SECRET, access_settings, signed

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

BOTH = {"broker-0", "broker-1"}
WITHIN_S = 20.0
WAIT_MS = 500
IMPATIENT = {"TERNMQ_EXPERT_REGISTRY_WAIT_MS": str(WAIT_MS)}
FROM_COPY, BACK, REGISTERED = "serving from a copy of it, ", "the registry is back", "registered as"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    folder = tmp_path_factory.mktemp("cluster")
    options = ("--cache-dir", str(folder / "cache"))
    with ClusterProcesses(folder, brokers=2, proxies=1, proxy_options=options) as processes:
        yield processes


def copy_of_broker(cluster: ClusterProcesses, broker: BrokerProcess) -> CopyFile:
    registry = registry_identity(cluster.registry_url)
    return CopyFile(path=broker.data / "registry-copy", registry=registry, holder=f"broker {broker.name}")


def copy_of_proxy(cluster: ClusterProcesses) -> CopyFile:
    path = cluster.brokers[0].data.parents[1] / "cache" / "registry-copy"
    return CopyFile(path=path, registry=registry_identity(cluster.registry_url), holder="proxy")


async def known_to(cluster: ClusterProcesses, topic: str, group: str) -> None:
    """Return when the copies of all have this topic and this group, and brokers what was deleted before."""

    async def is_known() -> bool:
        for file in (copy_of_proxy(cluster), *(copy_of_broker(cluster, each) for each in cluster.brokers)):
            copy = await asyncio.to_thread(file.read, now_ms())
            if copy is None or topic not in copy.snapshot.topics or group not in copy.snapshot.groups:
                return False
            if file.holder != "proxy" and copy.synced_up_to < copy.snapshot.version:
                return False
        return True

    await eventually(is_known, within_s=WITHIN_S, what=f"{topic} and {group} are in all copies")


async def ready_told(process: MemberProcess) -> dict[str, object]:
    """What it says of itself once it is ready: a proxy may have no broker yet when it has begun."""

    async def ready() -> str:
        status, text = await health(process, "ready")
        return text if status == 200 else ""

    told: dict[str, object] = json.loads(await eventually(ready, within_s=WITHIN_S, what=f"{process.name} is ready"))
    return told


async def from_copy_no_more(process: MemberProcess) -> None:
    async def is_over() -> bool:
        return "registry_copy_age_s" not in await ready_told(process)

    await eventually(is_over, within_s=WITHIN_S, what=f"{process.name} has read the registry")


async def made(client: RawClient, topic: str) -> None:
    """Make the topic as soon as the registry takes it."""

    async def is_made() -> bool:
        request = admin_pb2.CreateTopicRequest(topic=admin_pb2.Topic(name=topic, queues=2, type="NORMAL"))
        return code(await client.admin("CreateTopic", request)) == "OK"

    await eventually(is_made, within_s=WITHIN_S, what=f"{topic} is made")


async def refusal(process: MemberProcess) -> str:
    """What a process has said that does not start."""
    process._environment, before = IMPATIENT, len(process.log.read_text())
    with pytest.raises(AssertionError, match="ended with 1 before it was ready"):
        await asyncio.to_thread(process.start)
    process._environment = {}
    return process.log.read_text()[before:]


def said(process: MemberProcess, what: str) -> int:
    return process.log.read_text().count(what)


@pytest.mark.parametrize("kind", ["killed", "hanging"])
async def test_who_dies_while_the_registry_is_away_comes_back_and_serves(
    cluster: ClusterProcesses, client: RawClient, kind: str
) -> None:
    topic, (proxy, *_), (broker, other) = (
        await client.create_topic(f"flowing-{kind}", queues=2),
        cluster.proxies,
        cluster.brokers,
    )
    await in_routes([client], topic, BOTH, within_s=WITHIN_S)
    await send_each(client, topic, *(b"before-%d" % number for number in range(8)))
    first = await consumed(client, topic, "readers", 3)
    await known_to(cluster, topic, "readers")
    killed = (proxy, broker, other)
    before = {process: [said(process, what) for what in (FROM_COPY, BACK, REGISTERED)] for process in killed}
    with outage(cluster.postgres, kind):
        for process in killed:
            process.kill9()
        for process in killed:
            process.begin()  # each waits for the registry before it takes its copy
        for process in killed:
            await asyncio.to_thread(process.wait_until_ready)
        for process in killed:
            age_s = (await ready_told(process))["registry_copy_age_s"]
            assert isinstance(age_s, int)
            assert 0 <= age_s < 120
            assert "copy" in str((await ready_told(process))["degraded"])
            seen = await asyncio.to_thread(metrics_of, process)
            assert (seen["ternmq_registry_copy_age_seconds"] > 0, seen["ternmq_registry_reachable"]) == (True, 0)
            assert said(process, FROM_COPY) == before[process][0] + 1

        async def flows() -> bool:
            return (await stored(client, topic)).keys() == BOTH

        await eventually(flows, within_s=WITHIN_S, what="the proxy has both brokers")
        held = await stored(client, topic)
        await send_each(client, topic, *(b"meanwhile-%d" % number for number in range(8)))
        assert {name: count - held[name] for name, count in (await stored(client, topic)).items()} == dict.fromkeys(
            BOTH, 4
        )
        expected = {b"%s-%d" % (when, number) for when in (b"before", b"meanwhile") for number in range(8)}
        found = set(first)
        while found < expected:  # what was acknowledged just before a kill may come again
            found.update(await consumed(client, topic, "readers", 1))
        assert found == expected
        refused, text = await sent_code(client, f"never-heard-of-{kind}")
        assert (refused, "the registry can't be reached" in text) == ("HA_NOT_AVAILABLE", True), text
        request = admin_pb2.CreateTopicRequest(topic=admin_pb2.Topic(name="refused", queues=1, type="NORMAL"))
        assert code(await client.admin("CreateTopic", request)) == "HA_NOT_AVAILABLE"

    await made(client, f"back-{kind}")  # on the brokers that have registered again by then
    for process in killed:
        await from_copy_no_more(process)
        assert said(process, BACK) == before[process][1] + 1

    async def registered() -> bool:
        return all(said(each, REGISTERED) == before[each][2] + 1 for each in cluster.brokers)

    await eventually(registered, within_s=WITHIN_S, what="both brokers have registered anew")
    after = await client.create_topic(f"after-{kind}")
    await in_routes([client], after, BOTH, within_s=WITHIN_S)
    await send_each(client, after, *(b"%d" % number for number in range(8)))
    assert await stored(client, after) == dict.fromkeys(BOTH, 4)
    assert len(await consumed(client, after, "readers", 8)) == 8
    assert {each.process.poll() for each in killed} == {None}
    assert not [each for each in killed if "Traceback" in each.log.read_text()]


async def test_copies_are_for_their_owner_and_a_broker_has_no_keys(
    cluster: ClusterProcesses, client: RawClient
) -> None:
    topic = await client.create_topic("copied")
    assert (await client.receive(topic, "copiers")).code == "MESSAGE_NOT_FOUND"
    await known_to(cluster, topic, "copiers")
    of_broker, of_proxy = copy_of_broker(cluster, cluster.brokers[0]), copy_of_proxy(cluster)
    for file in (of_broker, of_proxy):
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
        assert "postgresql:" not in file.path.read_text()
    known = await asyncio.to_thread(of_broker.read, now_ms())
    assert known is not None
    assert known.snapshot.handle_keys == ()
    known = await asyncio.to_thread(of_proxy.read, now_ms())
    assert known is not None
    assert known.snapshot.handle_keys


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def foreign(path: Path) -> None:
    """As of another database, whole in itself."""
    assert path.name == "registry-copy"
    holder = "proxy" if path.parent.name == "cache" else f"broker {path.parents[1].name}"
    content = path.read_bytes()
    database = re.search(rb'"registry":"([^"]+)"', content)
    assert database is not None
    there = CopyFile(path=path, registry=database[1].decode(), holder=holder)
    copy = there.read(now_ms())
    assert copy is not None
    other = type(copy)(registry="elsewhere:5432/x", holder=holder, read_ms=copy.read_ms, snapshot=copy.snapshot)
    there.write(other)


SPOILT: dict[str, tuple[Callable[[Path], None], str | None]] = {
    "missing": (Path.unlink, None),
    "damaged": (damaged, "is not used: the file 'registry-copy' is damaged: the checksum does not fit"),
    "foreign": (foreign, "is not used: it is of the registry 'elsewhere:5432/x', not of '127.0.0.1:"),
}


@pytest.mark.parametrize("how", SPOILT)
async def test_a_copy_that_is_none_is_not_used(cluster: ClusterProcesses, client: RawClient, how: str) -> None:
    spoil, told = SPOILT[how]
    broker, proxy = cluster.brokers[0], cluster.proxies[0]
    await serving(client, cluster.brokers)
    assert await asyncio.to_thread(broker.terminate) == 0
    assert await asyncio.to_thread(proxy.terminate) == 0
    spoil(copy_of_broker(cluster, broker).path)
    spoil(copy_of_proxy(cluster).path)
    cluster.postgres.kill()
    try:
        for process in (broker, proxy):
            said = await refusal(process)
            assert "the registry can't be reached" in said
            assert said.count("is not used") == (told is not None)
            assert told is None or told in said
    finally:
        cluster.postgres.start()
        for process in (broker, proxy):
            await asyncio.to_thread(process.start)
    await serving(client, cluster.brokers)


async def test_a_broker_that_is_elsewhere_does_not_serve_where_nobody_looks_for_it(
    cluster: ClusterProcesses, client: RawClient
) -> None:
    broker = cluster.brokers[0]
    await known_to(cluster, await client.create_topic("moved"), "watchers")
    address = broker.addresses["storage"]
    broker.kill9()
    cluster.postgres.kill()
    broker.addresses["storage"] = "127.0.0.1:0"
    try:
        assert f"by it proxies look for the broker at {address}" in await refusal(broker)
    finally:
        broker.addresses["storage"] = address
        cluster.postgres.start()
        await asyncio.to_thread(broker.start)


async def test_who_was_removed_meanwhile_ends_when_the_registry_says_so(
    cluster: ClusterProcesses, client: RawClient
) -> None:
    broker = cluster.brokers[1]
    # Else, where this is the first test, it dies before it has a copy that knows it.
    await known_to(cluster, await client.create_topic("left"), "watchers")
    broker.kill9()
    assert code(await client.admin("RemoveBroker", name=broker.name, force=True)) == "OK"
    with outage(cluster.postgres, "killed"):
        await asyncio.to_thread(broker.start)
        assert "registry_copy_age_s" in await ready_told(broker)
    await asyncio.to_thread(broker.process.wait, WITHIN_S)
    assert await asyncio.to_thread(broker.terminate) == 1
    said = broker.log.read_text()
    assert "the registry is back, and this process can't be broker broker-1, and ends: " in said
    broker.options = ("--rejoin",)
    await asyncio.to_thread(broker.start)
    await serving(client, cluster.brokers)


async def test_users_are_known_from_the_copy_and_each_worker_keeps_one(tmp_path: Path) -> None:
    options = config_options(tmp_path, f'{access_settings()}workers = 2\ncache_dir = "{tmp_path / "cache"}"\n')
    request = rpc.SendMessageRequest(messages=[message("orders")])
    with ClusterProcesses(tmp_path, brokers=1, proxies=1, proxy_options=options) as cluster:
        [proxy] = cluster.proxies
        async with ternmq.Admin(proxy.grpc, credentials=ternmq.Credentials("root", SECRET)) as admin:
            await admin.create_topic("orders")
            await admin.create_user("alice", SECRET)
            await admin.put_policy("alice", "Topic:orders", "Pub")
        registry = registry_identity(cluster.registry_url)
        async with RawClient(proxy.grpc, metadata=signed("alice", "before")) as client:

            async def sent() -> bool:
                return code(await client.call("SendMessage", request)) == "OK"

            await eventually(sent, within_s=WITHIN_S, what="alice may send, and the broker knows the topic")

        async def are_kept() -> bool:
            paths = sorted((tmp_path / "cache").glob("registry-copy.worker-?"))
            files = [CopyFile(path=path, registry=registry, holder="proxy") for path in paths]
            copies = [await asyncio.to_thread(file.read, now_ms()) for file in files]
            users = [copy.snapshot.access.users.get("alice") for copy in copies if copy is not None]
            return len(users) == 2 and all(user is not None and user.policies for user in users)

        await eventually(are_kept, within_s=WITHIN_S, what="both workers have copied alice")
        assert not [each for each in (tmp_path / "cache").iterdir() if SECRET in each.read_text()]
        cluster.postgres.kill()
        await asyncio.to_thread(proxy.kill9_with_workers)
        await asyncio.to_thread(proxy.start)
        assert "copy" in str((await ready_told(proxy))["degraded"])
        for user, expected in (("alice", "OK"), ("mallory", "UNAUTHORIZED")):
            async with RawClient(proxy.grpc, metadata=signed(user, user)) as client:
                answer = await client.call("SendMessage", request)
                assert code(answer) == expected, answer
        cluster.postgres.start()

        async def is_over() -> bool:
            return "degraded" not in await ready_told(proxy)

        await eventually(is_over, within_s=WITHIN_S, what="all workers have read the registry")


async def test_a_replica_waits_for_the_registry(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, brokers=1, proxies=0, replicas=2) as cluster:
        replica = cluster.replicas[0]

        async def has_copy() -> bool:
            copy = await asyncio.to_thread(copy_of_broker(cluster, replica).read, now_ms())
            shard = None if copy is None else copy.snapshot.brokers.get("broker-0")
            return shard is not None and len(shard.replicas) == 2

        await eventually(has_copy, within_s=WITHIN_S, what="the replica has a copy")
        cluster.postgres.kill()
        replica.kill9()
        replica._environment = IMPATIENT
        starting = asyncio.create_task(asyncio.to_thread(replica.start))

        async def waits() -> bool:
            try:
                status, text = await health(replica, "ready")
            except OSError:
                return False  # its process has just begun
            return status == 503 and "neither leads nor follows" in text

        await eventually(waits, within_s=WITHIN_S, what="the replica says that it waits")
        # Longer than it waits without a copy.
        await asyncio.wait({starting}, timeout=3 * WAIT_MS / 1000)
        assert not starting.done()
        assert (await health(replica, "live"))[0] == 200
        cluster.postgres.start()
        await starting

        async def is_ready() -> bool:
            return (await health(replica, "ready"))[0] == 200

        await eventually(is_ready, within_s=WITHIN_S, what="the replica has its place in the shard again")
        assert replica.log.read_text().count("neither leads nor follows") == 1
