"""What a broker tells of what it holds, with its heartbeats and at its end."""

import asyncio
from pathlib import Path

import pytest

from ternmq_broker.server.load_report import LoadReport
from ternmq_common.limits import HOUR_MS
from ternmq_common.shard.model import QueueRef, TimedMessage
from tests.support.cluster import InProcessCluster, running
from tests.support.message_service_conformance import TOPIC, message, order
from tests.support.until import until


def load_of(cluster: InProcessCluster) -> LoadReport:
    [node] = cluster.nodes
    return LoadReport(node.broker, node.proxies, node.directory)


async def test_what_would_be_lost_with_a_broker_is_counted(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=1) as cluster:
        broker = cluster.nodes[0].broker
        load = load_of(cluster)
        assert (load.current_load().messages, load.current_load().unfinished, load.current_load().timers) == (
            None,
            None,
            None,
        )
        queue = QueueRef(TOPIC.name, broker.name, 0)
        await broker.sending.append(queue, [message(b"1"), message(b"2"), message(b"3")])
        await broker.sending.append(QueueRef("%DLQ%g", broker.name, 0), [message(b"nobody's")])
        later = TimedMessage(message(b"later"), cluster.clock.now_ms() + HOUR_MS)
        await broker.sending.schedule(queue, [later, later])
        load.start()
        try:
            await until(lambda: load.current_load().timers == 2)
            assert (load.current_load().messages, load.current_load().unfinished) == (
                3,
                0,
            )  # no group has come for them
        finally:
            await load.stop()


async def test_at_the_end_all_is_counted_once_more(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=1) as cluster:
        broker = cluster.nodes[0].broker
        load = load_of(cluster)
        load.start()
        await until(lambda: load.current_load().messages == 0)
        await broker.sending.append(QueueRef(TOPIC.name, broker.name, 0), [message(b"1"), message(b"2")])
        [first] = await broker.consuming.pop(order(batch=1), 0.0)
        assert (load.current_load().messages, load.current_load().unfinished) == (0, 0)
        broker.consuming.acknowledge("g", TOPIC.name, [first.handle])
        last = await load.final_load()
        assert (last.messages, last.unfinished, last.timers) == (2, 1, 0)
        assert (last.messages_in, last.messages_out) == (0.0, 0.0)


async def test_a_last_count_that_takes_too_long_leaves_what_was_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, brokers=1) as cluster:
        [node] = cluster.nodes
        broker = node.broker
        load = LoadReport(broker, node.proxies, node.directory, last_count_s=0.01)
        load.start()
        await until(lambda: load.current_load().messages == 0)
        await broker.sending.append(QueueRef(TOPIC.name, broker.name, 0), [message(b"1")])

        async def never() -> int:
            await asyncio.Event().wait()
            raise AssertionError

        monkeypatch.setattr(broker.figures, "count_timers", never)
        assert (await load.final_load()).messages == 0
