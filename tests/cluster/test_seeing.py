"""What a cluster shows: one trace through proxy and broker to the consumer, and the metrics of both."""

import asyncio
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.shard import shard_of
from tests.cluster.watching import clients_of, eventually, health
from tests.support.cluster_processes import ClusterProcesses, ReplicaProcess
from tests.support.collector import Collector
from tests.support.embedded import RawClient
from tests.support.stack import ServerProcess, config_options

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
TRACE = "0af7651916cd43dd8448eb211c80319c"
PRODUCER = "b7ad6b7169203331"


async def test_a_trace_follows_a_message_through_two_proxies_and_a_broker(tmp_path: Path) -> None:
    with Collector() as collector:
        options = config_options(tmp_path, f'otlp_endpoint = "{collector.endpoint}"\n')
        with ClusterProcesses(tmp_path, brokers=1, broker_options=options, proxy_options=options) as cluster:
            first, second = (RawClient(proxy.grpc) for proxy in cluster.proxies)
            async with first, second:
                await first.send("orders", b"traced", trace_context=f"00-{TRACE}-{PRODUCER}-01")
                [received] = (await second.receive("orders", "billing")).messages
            assert received.system_properties.trace_context == f"00-{TRACE}-{PRODUCER}-01"
            for process in (*cluster.proxies, *cluster.brokers):
                assert process.terminate() == 0  # what ends in order tells the collector the last
        spans = {span.name: span for span in collector.spans()}
    assert set(spans) >= {"send orders", "append orders", "receive orders"}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert spans["append orders"].parent_span_id == spans["send orders"].span_id
    assert spans["receive orders"].parent_span_id.hex() == PRODUCER


def metrics_of(server: ServerProcess) -> dict[str, float]:
    """The first value of each metric."""
    with urllib.request.urlopen(f"http://{server.addresses['http']}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    return {family.name: family.samples[0].value for family in text_string_to_metric_families(text) if family.samples}


def link_is(up: float, proxy: ServerProcess) -> None:
    """Return when the proxy's metrics say so; a link that breaks is noticed at once."""
    deadline = time.monotonic() + 20
    while metrics_of(proxy)["ternmq_link_up"] != up:
        assert time.monotonic() < deadline, proxy.log_tail()


async def test_the_processes_of_a_cluster_tell_of_its_state(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, brokers=1, proxies=1) as cluster:
        (proxy,), (broker,) = cluster.proxies, cluster.brokers
        async with RawClient(proxy.grpc) as client:
            await client.send("orders", b"counted")
            await client.receive("orders", "billing")
        seen = metrics_of(proxy)
        assert (seen["ternmq_link_up"], seen["ternmq_link_set_aside"]) == (1, 0)
        assert seen["ternmq_link_calls"] >= 2
        assert seen["ternmq_registry_reachable"] == 1
        seen = metrics_of(broker)
        assert (seen["ternmq_messages_sent"], seen["ternmq_messages_delivered"]) == (1, 1)
        assert seen["ternmq_consumer_in_flight"] == 1
        assert seen["ternmq_broker_proxies"] == 1
        assert seen["ternmq_lease_age_seconds"] < 60
        broker.kill9()
        link_is(0, proxy)
        broker.start()
        link_is(1, proxy)


async def test_replicas_tell_who_leads_how_far_they_are_and_why_one_is_not_ready(tmp_path: Path) -> None:
    with shard_of(tmp_path, proxies=1) as shard:
        async with clients_of(shard.cluster.proxies) as (client,):
            await shard.in_sync(3)
            await client.create_topic("orders")
            for _ in range(10):
                await client.send("orders", b"x" * 1000)
        leader, (follower, other) = await shard.leader(), await shard.followers()
        seen = metrics_of(leader)
        assert (seen["ternmq_replica_leading"], seen["ternmq_replica_serving"]) == (1, 1)
        assert [seen[f"ternmq_shard_{name}"] for name in ("in_sync", "replicas", "min_insync")] == [3, 3, 2]
        assert (seen["ternmq_replica_leaderships"], seen["ternmq_shard_refusing"]) == (1, 0)
        assert (seen["ternmq_messages_sent"], seen["ternmq_broker_proxies"]) == (10, 1)
        assert seen["ternmq_lease_age_seconds"] < 60
        copied = metrics_of(follower)
        assert (copied["ternmq_replica_leading"], copied["ternmq_replica_leaderships"]) == (0, 0)
        assert copied["ternmq_replica_epoch"] == seen["ternmq_replica_epoch"]
        assert copied["ternmq_store_log_size_bytes"] > 10_000
        assert copied["ternmq_lease_age_seconds"] < 60
        assert not [name for name in copied if name.startswith("ternmq_shard")]

        other.kill9()
        leader.terminate()

        async def leads() -> bool:
            return metrics_of(follower)["ternmq_replica_leading"] == 1

        await eventually(leads, within_s=20, what="the other one leads")
        await asyncio.to_thread(leader.start)
        await shard.in_sync(2)
        leader.kill9()
        assert metrics_of(follower)["ternmq_replica_leaderships"] == 1
        await not_ready(follower, "leads its shard, and accepts no messages")
        follower.kill9()
        await asyncio.to_thread(other.start)
        await not_ready(other, "no leader to follow")


async def not_ready(replica: ReplicaProcess, why: str) -> None:
    """Return when the replica says that it is not ready, and why."""

    async def says() -> bool:
        status, text = await health(replica, "ready")
        return status == 503 and why in text

    await eventually(says, within_s=20, what=f"{why}: {(await health(replica, 'ready'))}")
