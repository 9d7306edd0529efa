"""What /metrics and a collector are told of a running stack."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ternmq import Admin
from ternmq_common.server_settings import ServerSettings
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_runtime.observability import instruments
from ternmq_runtime.observability.instruments import INSTRUMENTS
from ternmq_runtime.observability.otel_metrics import OtelMetrics
from ternmq_runtime.observability.samples import Samples, Value
from tests.support.collector import Collector
from tests.support.embedded import Embedded, RawClient
from tests.support.ports import ANY_PORT
from tests.support.series_names import series_names

Series = dict[str, float]


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., ServerSettings]:
    def make(name: str = "data", **others: object) -> ServerSettings:
        return ServerSettings(data_dir=tmp_path / name, grpc=ANY_PORT, http=ANY_PORT, **others)  # type: ignore[arg-type]

    return make


async def http_get(address: str, path: str) -> tuple[int, str, bytes]:
    """Status, type and content."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
    async with asyncio.timeout(20):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    lines = head.decode().lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), headers["content-type"], body


async def scraped(server: Embedded) -> Series:
    """Every series by its name and labels, as Prometheus would write them."""
    status, kind, body = await http_get(server.http, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


async def test_a_message_is_seen_from_its_sending_to_its_end(settings: Callable[..., ServerSettings]) -> None:
    async with Embedded(settings()) as server, RawClient(server.grpc) as client:
        await client.send("orders", b"first", b"second")
        received = await client.receive("orders", "billing")
        await client.ack("orders", "billing", received.messages[0].system_properties.receipt_handle)
        seen = await scraped(server)
    topic = "messaging_destination_name=orders"
    both = f"messaging_consumer_group_name=billing {topic}"
    assert {
        name: seen[name]
        for name in (
            f"ternmq_messages_sent_total {topic}",
            f"ternmq_messages_delivered_total {topic}",
            f"ternmq_messages_acknowledged_total {topic}",
            f"ternmq_consumer_lag {both}",
            f"ternmq_consumer_in_flight {both}",
            "rpc_server_call_duration_seconds_count rpc_method=SendMessage rpc_response_status_code=OK",
            "rpc_server_call_duration_seconds_count rpc_method=AckMessage rpc_response_status_code=OK",
            "ternmq_poll_duration_seconds_count rpc_method=ReceiveMessage rpc_response_status_code=OK",
            "ternmq_store_records_total",
            "ternmq_broker_accepting",
            "ternmq_store_segments",
        )
    } == {
        f"ternmq_messages_sent_total {topic}": 2,
        f"ternmq_messages_delivered_total {topic}": 2,
        f"ternmq_messages_acknowledged_total {topic}": 1,
        f"ternmq_consumer_lag {both}": 1,
        f"ternmq_consumer_in_flight {both}": 1,
        "rpc_server_call_duration_seconds_count rpc_method=SendMessage rpc_response_status_code=OK": 1,
        "rpc_server_call_duration_seconds_count rpc_method=AckMessage rpc_response_status_code=OK": 1,
        "ternmq_poll_duration_seconds_count rpc_method=ReceiveMessage rpc_response_status_code=OK": 1,
        "ternmq_store_records_total": 2,
        "ternmq_broker_accepting": 1,
        "ternmq_store_segments": 1,
    }
    assert seen["ternmq_store_sync_duration_seconds_count"] >= 1
    assert seen["ternmq_front_received_bytes_total"] > len(b"firstsecond")
    assert seen["ternmq_front_sent_bytes_total"] > len(b"firstsecond")
    assert 0 < seen["ternmq_store_disk_used"] < 1
    assert seen["process_memory_usage_bytes"] > 1 << 20


async def test_topics_and_groups_that_are_deleted_make_room_for_others(
    settings: Callable[..., ServerSettings],
) -> None:
    async with (
        Embedded(settings(metric_series_max=2)) as server,
        RawClient(server.grpc) as client,
        Admin(server.grpc) as admin,
    ):
        for topic in ("a", "b", "c"):
            await client.send(topic, b"message")
        first = await scraped(server)
        for topic in ("a", "b"):
            await admin.delete_topic(topic)
        await client.send("c", b"message")
        await client.send("d", b"message")
        second = await scraped(server)
    sent = "ternmq_messages_sent_total messaging_destination_name="
    assert {name: value for name, value in first.items() if name.startswith(sent)} == {
        f"{sent}a": 1, f"{sent}b": 1, f"{sent}other": 1
    }  # fmt: skip
    assert {name: value for name, value in second.items() if name.startswith(sent)} == {
        f"{sent}c": 1, f"{sent}d": 1, f"{sent}other": 1
    }  # fmt: skip


def test_series_that_come_are_told_however_many_there_were_before() -> None:
    """OpenTelemetry's SDK tells no more than 2000 of an instrument, those that went away among them."""
    names = ["first"]

    def samples() -> Samples:
        sent: list[tuple[Value, dict[str, str]]] = [(7, {instruments.TOPIC: name}) for name in names]
        return {instruments.SENT: sent, instruments.UPTIME: [(1, {})]}

    metrics = OtelMetrics({}, samples)
    assert b'topic="first"' in metrics.render_text().replace(b"messaging_destination_name", b"topic")
    for number in range(30):
        names[:] = [f"topic-{number}-{each}" for each in range(100)]
        text = metrics.render_text().decode()
    assert "first" not in text
    assert "overflow" not in text
    assert text.count("ternmq_messages_sent_total{") == 100
    assert text.count("topic-29-") == 100
    metrics.close_exporter(1000)


async def test_the_lag_of_a_group_counts_every_queue_of_its_topics(settings: Callable[..., ServerSettings]) -> None:
    async with Embedded(settings(default_queues=8)) as server, RawClient(server.grpc) as client:
        for _ in range(16):
            await client.send("orders", *[b"order"] * 50)
        [received] = (await client.receive("orders", "billing", batch_size=1)).messages
        await client.ack("orders", "billing", received.system_properties.receipt_handle)
        seen = await scraped(server)
    assert seen["ternmq_consumer_lag messaging_consumer_group_name=billing messaging_destination_name=orders"] == 799


async def test_a_call_is_counted_by_the_code_of_its_answer(settings: Callable[..., ServerSettings]) -> None:
    async with Embedded(settings(auto_create=False)) as server, RawClient(server.grpc) as client:
        assert (await client.call("QueryRoute", topic={"name": "nowhere"})).status.code == pb.TOPIC_NOT_FOUND
        seen = await scraped(server)
    code = "rpc_method=QueryRoute rpc_response_status_code=TOPIC_NOT_FOUND"
    assert seen[f"rpc_server_call_duration_seconds_count {code}"] == 1


async def test_clients_streams_and_waiting_polls_are_seen_while_they_are_there(
    settings: Callable[..., ServerSettings],
) -> None:
    async with Embedded(settings()) as server, RawClient(server.grpc) as client:
        await client.create_topic("orders")
        stream = await client.publish_to(pb.Resource(name="orders"))
        poll = asyncio.create_task(client.receive("orders", "billing", poll_s=15.0))
        seen = await scraped(server)
        while not seen["ternmq_broker_polls"]:
            seen = await scraped(server)
        assert (seen["ternmq_front_clients"], seen["ternmq_front_streams"], seen["ternmq_front_polls"]) == (1, 1, 1)
        await client.send("orders", b"for the poll")
        assert (await poll).bodies == [b"for the poll"]
        await stream.done_writing()
        while await stream.read():
            pass
        seen = await scraped(server)
        assert (seen["ternmq_front_clients"], seen["ternmq_front_streams"], seen["ternmq_front_polls"]) == (0, 0, 0)


async def test_dead_letters_timers_and_transactions_are_counted(settings: Callable[..., ServerSettings]) -> None:
    async with Embedded(settings()) as server, RawClient(server.grpc) as client:
        await client.create_topic("payments", kind=pb.TRANSACTION)
        await client.create_topic("reminders", kind=pb.DELAY)
        await client.send("payments", b"half", message_type=pb.TRANSACTION)
        due_ms = await client.server_ms() + 3_600_000
        await client.send("reminders", b"later", delivery_timestamp={"seconds": due_ms // 1000})
        await client.send("orders", b"bad")
        [message] = (await client.receive("orders", "billing")).messages
        system = message.system_properties
        dead = {"handle": system.receipt_handle, "message_id": system.message_id}
        assert await client.forward_to_dead_letters("orders", "billing", **dead) == "OK"
        seen = await scraped(server)
    assert seen["ternmq_messages_dead_letters_total messaging_consumer_group_name=billing"] == 1
    assert seen["ternmq_transactions_open"] == 1
    assert seen["ternmq_timers_pending"] == 1
    assert seen["ternmq_messages_sent_total messaging_destination_name=reminders"] == 1


async def test_two_stacks_in_one_process_have_figures_of_their_own(settings: Callable[..., ServerSettings]) -> None:
    async with (
        Embedded(settings("one", broker_name="one")) as one,
        Embedded(settings("two", broker_name="two")) as two,
        RawClient(one.grpc) as client,
    ):
        await client.send("orders", b"a", b"b", b"c")
        [first, second] = [await scraped(one), await scraped(two)]
    assert first["ternmq_messages_sent_total messaging_destination_name=orders"] == 3
    assert not [name for name in second if name.startswith("ternmq_messages_sent_total")]
    [target] = [name for name in second if name.startswith("target_info")]
    assert "service_instance_id=two service_name=ternmq" in target


async def test_scrapes_that_come_together_are_all_whole(settings: Callable[..., ServerSettings]) -> None:
    async with Embedded(settings()) as server, RawClient(server.grpc) as client:
        await client.send("orders", b"a")
        names = [set(seen) for seen in await asyncio.gather(*(scraped(server) for _ in range(8)))]
    assert all(each == names[0] for each in names)


async def test_a_collector_is_told_the_same_by_otlp(settings: Callable[..., ServerSettings]) -> None:
    with Collector() as collector:
        async with (
            Embedded(settings(otlp_endpoint=collector.endpoint)) as server,
            RawClient(server.grpc) as client,
        ):
            await client.send("orders", b"a")
            scraped_names = set(await scraped(server))
        metrics = collector.metrics()
        assert collector.services() == {"ternmq"}
    [point] = metrics["ternmq.messages.sent"].sum.data_points
    assert (point.as_int, point.attributes[0].value.string_value) == (1, "orders")
    [call] = metrics["rpc.server.call.duration"].histogram.data_points
    assert (call.count, len(call.bucket_counts), len(call.explicit_bounds)) == (1, 16, 15)
    names = {name for instrument in INSTRUMENTS if instrument.name in metrics for name in series_names(instrument)}
    assert {name.partition(" ")[0] for name in scraped_names} - {"target_info"} == names


async def test_a_collector_that_is_not_there_keeps_no_server_from_its_end(
    settings: Callable[..., ServerSettings],
) -> None:
    async with asyncio.timeout(15):
        async with (
            Embedded(settings(otlp_endpoint="http://127.0.0.1:1", trace_ratio=1.0)) as server,
            RawClient(server.grpc) as client,
        ):
            await client.send("orders", b"a")
    # The server has ended, its last words have not: they would draw random numbers in the middle of the next test.
    for thread in threading.enumerate():
        if thread.name == "telemetry":
            await asyncio.to_thread(thread.join, 60)


_LOADED_BY_SERVING = """
import asyncio, sys
from pathlib import Path
from ternmq import Admin
from ternmq_common.server_settings import ServerSettings
from tests.support.embedded import Embedded, RawClient

async def serve():
    settings = ServerSettings(data_dir=Path(sys.argv[1]), grpc="127.0.0.1:0", http="127.0.0.1:0")
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await client.send("orders", b"a")

asyncio.run(serve())
print([name for name in sys.modules if name.startswith(("opentelemetry", "prometheus_client"))])
"""


@pytest.mark.slow
def test_nothing_of_the_sdk_is_loaded_before_somebody_wants_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED_BY_SERVING, tmp_path],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.strip() == "[]", done.stderr
