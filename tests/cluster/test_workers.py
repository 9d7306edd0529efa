"""`ternmq proxy --workers N`: several proxies of a cluster behind one port."""

import asyncio
from pathlib import Path

import psutil
import pytest

from ternmq import Message, Producer
from tests.faults.test_process_death import TOPIC, Account, consume_all
from tests.support.cluster_processes import ClusterProcesses

pytestmark = [pytest.mark.cluster]

CONNECTIONS = 16


async def test_a_proxy_of_two_workers_serves_and_a_worker_that_dies_takes_nothing_along(tmp_path: Path) -> None:
    account = Account()
    with ClusterProcesses(tmp_path, brokers=2, proxies=1, proxy_options=("--workers", "2")) as cluster:
        (proxy,) = cluster.proxies
        workers = psutil.Process(proxy.process.pid).children()
        assert sorted(each.cmdline()[-1] for each in workers) == ["worker-0", "worker-1"]
        producers = [Producer(proxy.grpc, topics=[TOPIC]) for _ in range(CONNECTIONS)]
        await asyncio.gather(*(producer.start() for producer in producers))
        await send_all(producers, b"before", account)
        workers[0].kill()
        await send_all(producers, b"after", account)
        await asyncio.gather(*(producer.close() for producer in producers))
        await consume_all(proxy.grpc, account)
        assert account.sent <= account.received.keys()
        assert await asyncio.to_thread(proxy.terminate) == 0
        assert psutil.wait_procs(workers, timeout=0)[1] == []
        log = cluster.brokers[0].log.read_text()
        assert all(f"proxy {proxy.name}-{number} is gone" in log for number in range(2))


async def send_all(producers: list[Producer], text: bytes, account: Account) -> None:
    """Each producer sends one message, and again if nobody answered."""
    bodies = [b"%s-%d" % (text, number) for number in range(len(producers))]
    await asyncio.gather(
        *(producer.send(Message(TOPIC, body)) for producer, body in zip(producers, bodies, strict=True))
    )
    account.sent.update(bodies)
