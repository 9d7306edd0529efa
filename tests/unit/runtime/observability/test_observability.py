"""One process's figures and traces without its servers: what a proxy and a broker of a cluster bring."""

import dataclasses
import sys
from collections.abc import AsyncIterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ternmq_common.errors import StartupError
from ternmq_common.server_settings import ProcessSettings
from ternmq_runtime.observability.durations import DurationHistogram
from ternmq_runtime.observability.figures import (
    BrokerFigures,
    CertificateFigures,
    FollowerReadFigures,
    GroupLag,
    LedShard,
    LinkFigures,
    MemberFigures,
    MessageCounts,
    ReplicaFigures,
    TrafficFigures,
)
from ternmq_runtime.observability.front_figures import FrontFigures
from ternmq_runtime.observability.instruments import INSTRUMENTS
from ternmq_runtime.observability.process_observability import ProcessObservability
from ternmq_runtime.observability.tracing import SpanContext, child_span, current_traceparent
from tests.support.collector import Collector
from tests.support.series_names import series_names

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FIGURES = BrokerFigures(
    messages=MessageCounts(),
    retries=1,
    dead_letters={"audit": 2},
    lost=3,
    accepts=False,
    polls_waiting=4,
    transactions=5,
    log_bytes=6,
    segments=7,
    records=8,
    skipped_bytes=9,
    torn_bytes=12,
    damaged_bytes=15,
    repaired_bytes=16,
    journal_lines_skipped=13,
    files_set_aside=14,
    disk_used=0.5,
    disk_free_bytes=10,
    disk_free_min_bytes=11,
    disk_refuses=True,
    syncs=DurationHistogram(),
)
LINK = LinkFigures(broker="b", up=True, set_aside=False, calls=30, late=1, lost=2, frames_out=10, frames_in=9)
COLD = FollowerReadFigures(broker="b", by_followers=40, by_leader=5)
MEMBER = MemberFigures(registry_reachable=False, registry_version=7, lease_age_s=1.5, proxies=2, clock_skew_s=-0.25)

REPLICA = ReplicaFigures(
    shard="b",
    leads=True,
    serves=False,
    epoch=40,
    times_led=2,
    position=3000,
    acknowledged=2500,
    led=LedShard(in_sync=2, replicas=3, min_insync=2, refuses=True, followers={"c": 500, "d": 0}),
)


class FakeBroker:
    """A broker whose figures the test says."""

    def __init__(self) -> None:
        self.counted = 0
        for by_topic in (FIGURES.messages.sent, FIGURES.messages.delivered, FIGURES.messages.acknowledged):
            by_topic.add_count("orders")

    def current_figures(self) -> BrokerFigures:
        return FIGURES

    async def count_lags(self) -> AsyncIterator[GroupLag]:
        self.counted += 1
        yield GroupLag("billing", "orders", 10, 4, 90_500)

    async def count_timers(self) -> int:
        return 11


async def scraped(observability: ProcessObservability) -> dict[str, float]:
    families = text_string_to_metric_families((await observability.render_metrics()).decode())
    return {
        sample.name + "".join(f" {value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name != "target_info"
    }


def a_full_process(**others: float) -> ProcessObservability:
    """One that has everything that there is to see."""
    observability = ProcessObservability(ProcessSettings(), service="ternmq-proxy", **others)  # type: ignore[arg-type]
    front = FrontFigures(lambda: TrafficFigures(3, 4096, 512, {"resets": 2}))
    front.record_call("SendMessage", "OK", 0.003)
    front.record_poll("ReceiveMessage", "OK", 1.0)
    observability.watch_front(front)
    observability.watch_broker(FakeBroker())
    observability.watch_links(lambda: [LINK])
    observability.watch_follower_reads(lambda: [COLD])
    observability.watch_member(lambda: MEMBER)
    observability.watch_replica(lambda: REPLICA)
    observability.watch_certificates(lambda: [CertificateFigures("server", 86400.0)])
    return observability


async def test_every_instrument_has_the_series_that_it_says() -> None:
    names = {name.partition(" ")[0] for name in await scraped(a_full_process())}
    declared = [series_names(instrument) for instrument in INSTRUMENTS]
    assert names == set().union(*declared)


async def test_what_a_cluster_and_a_leader_of_a_shard_know_is_told() -> None:
    seen = await scraped(a_full_process())
    expected = {
        "ternmq_link_up b": 1,
        "ternmq_link_set_aside b": 0,
        "ternmq_link_calls_total b": 30,
        "ternmq_link_frames_sent_total b": 10,
        "ternmq_link_failures_total late b": 1,
        "ternmq_link_failures_total lost b": 2,
        "ternmq_cold_pulls_total b follower": 40,
        "ternmq_cold_pulls_total b leader": 5,
        "ternmq_registry_reachable": 0,
        "ternmq_registry_version": 7,
        "ternmq_lease_age_seconds": 1.5,
        "ternmq_clock_skew_seconds": -0.25,
        "ternmq_broker_proxies": 2,
        "ternmq_broker_accepting": 0,
        "ternmq_store_skipped_bytes_total": 9,
        "ternmq_store_torn_bytes_total": 12,
        "ternmq_store_damaged_bytes": 15,
        "ternmq_store_repaired_bytes_total": 16,
        "ternmq_store_journal_skipped_total": 13,
        "ternmq_store_set_aside": 14,
        "ternmq_consumer_lag billing orders": 10,
        "ternmq_consumer_in_flight billing orders": 4,
        "ternmq_consumer_oldest_age_seconds billing orders": 90.5,
        "ternmq_messages_dead_letters_total audit": 2,
        "ternmq_messages_dead_letters_total billing": 0,
        "ternmq_timers_pending": 11,
    }
    assert {name: seen[name] for name in expected} == expected
    of_shard = {
        "ternmq_replica_leading b": 1,
        "ternmq_replica_serving b": 0,
        "ternmq_replica_epoch b": 40,
        "ternmq_replica_leaderships_total b": 2,
        "ternmq_replica_position_bytes b": 3000,
        "ternmq_replica_acknowledged_bytes b": 2500,
        "ternmq_replica_behind_bytes b": 0,
        "ternmq_shard_in_sync b": 2,
        "ternmq_shard_replicas b": 3,
        "ternmq_shard_min_insync b": 2,
        "ternmq_shard_refusing b": 1,
        "ternmq_shard_follower_behind_bytes b c": 500,
        "ternmq_shard_follower_behind_bytes b d": 0,
    }
    told = {name: value for name, value in seen.items() if name.startswith(("ternmq_replica", "ternmq_shard"))}
    assert told == of_shard


async def test_a_follower_tells_nothing_that_only_its_leader_knows() -> None:
    observability = a_full_process()
    follower = dataclasses.replace(REPLICA, leads=False, led=None, behind_bytes=70)
    observability.watch_replica(lambda: follower)
    seen = await scraped(observability)
    assert (seen["ternmq_replica_leading b"], seen["ternmq_replica_behind_bytes b"]) == (0, 70)
    assert not [name for name in seen if name.startswith("ternmq_shard")]


async def test_of_a_broker_that_is_watched_no_more_nothing_is_told() -> None:
    observability = a_full_process()
    assert "ternmq_consumer_lag billing orders" in await scraped(observability)
    observability.watch_broker(None)
    seen = await scraped(observability)
    assert not [name for name in seen if name.startswith(("ternmq_consumer", "ternmq_timers", "ternmq_store"))]


@pytest.mark.parametrize(("interval_s", "times"), [(3600.0, 1), (0.0, 3)])
async def test_lags_are_counted_no_more_often_than_the_interval_says(interval_s: float, times: int) -> None:
    observability = ProcessObservability(ProcessSettings(), service="ternmq", count_interval_s=interval_s)
    broker = FakeBroker()
    observability.watch_broker(broker)
    for _ in range(3):
        await observability.render_metrics()
    assert broker.counted == times


async def test_a_trace_goes_on_in_another_process() -> None:
    with Collector() as collector:
        settings = dataclasses.replace(ProcessSettings(), otlp_endpoint=collector.endpoint)
        proxy, broker = (ProcessObservability(settings, service=f"ternmq-{name}") for name in ("proxy", "broker"))
        await proxy.start_export()
        await broker.start_export()
        assert proxy.tracing is not None
        sending = proxy.tracing.begin_span("send orders", SAMPLED, {})
        assert sending is not None
        with SpanContext(sending):
            told = current_traceparent()
        with broker.continue_trace(told), child_span("append", "orders"):
            pass
        assert current_traceparent() == ""
        await proxy.stop_export()
        await broker.stop_export()
        assert collector.services() == {"ternmq-proxy", "ternmq-broker"}
        spans = {found.name: found for found in collector.spans()}
    assert spans["append orders"].parent_span_id == spans["send orders"].span_id
    assert spans["append orders"].trace_id == spans["send orders"].trace_id


async def test_without_a_collector_no_trace_goes_on() -> None:
    observability = ProcessObservability(ProcessSettings(), service="ternmq-broker")
    await observability.start_export()
    with observability.continue_trace(SAMPLED):
        assert current_traceparent() == ""
    await observability.stop_export()


async def test_without_the_packages_a_collector_can_not_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.metric_exporter", None)
    settings = ProcessSettings(otlp_endpoint="http://127.0.0.1:1")
    with pytest.raises(StartupError, match=r"run pip install '\.\[otel,server\]'"):
        await ProcessObservability(settings, service="ternmq").start_export()
