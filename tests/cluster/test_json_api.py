"""The JSON API of proxies: brokers and replicas, and a proxy of several workers, which answer for it."""

import asyncio
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.support.cluster_processes import ClusterProcesses
from tests.support.json_api import LINES, Json, JsonApi

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

pytestmark = [pytest.mark.cluster]


async def until(look: "Callable[[], Awaitable[Json]]", holds: "Callable[[Json], bool]") -> Json:
    """What `look` says when that holds of it: nobody tells when the registry's news have come."""
    async with asyncio.timeout(30):
        while not holds(said := await look()):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)
    return said


async def test_a_shard_is_looked_after_by_http(tmp_path: "Path") -> None:
    with ClusterProcesses(tmp_path, brokers=1, proxies=1, replicas=2) as cluster:
        api = JsonApi(cluster.proxies[0].addresses["http"])

        async def shard() -> Json:
            (broker,) = (await api.get("/brokers")).json["brokers"]
            return broker

        def leader(broker: Json) -> str:
            return next((each["name"] for each in broker["replicas"] if each["leader"]), "")

        before = await until(shard, lambda broker: sum(each["in_sync"] for each in broker["replicas"]) == 2)
        name, led = before["name"], leader(before)
        other = next(each["name"] for each in before["replicas"] if each["name"] != led)
        moved = (await api.put(f"/brokers/{name}/leader", {"replica": other})).json["broker"]
        assert moved["move_to"] == other or leader(moved) != led  # it may have moved before the answer was written
        await until(shard, lambda broker: leader(broker) == other)
        assert (await api.post(f"/brokers/{name}/replicas")).json["broker"]["replicas_wanted"] == 3
        refused = await api.post(f"/brokers/{name}/election", {"replica": led})
        assert 400 <= refused.status < 500, "a leader is live"
        missing = await api.delete(f"/brokers/{name}/replicas/nobody")
        assert 400 <= missing.status < 500
        assert (await api.patch(f"/brokers/{name}", {"draining": True})).json["broker"]["draining"] is True
        assert (await api.get(f"/brokers/{name}/remaining")).json["backlogs"] == []
        lines = (await api.get("/brokers", {"accept": LINES})).lines
        assert [line["name"] for line in lines] == [name]


async def test_any_worker_answers_for_a_proxy_of_several(tmp_path: "Path") -> None:
    with ClusterProcesses(tmp_path, brokers=1, proxies=1, proxy_options=("--workers", "2")) as cluster:
        (proxy,) = cluster.proxies
        api = JsonApi(proxy.addresses["http"])
        assert (await api.post("/topics", {"name": "orders", "queues": 1})).status == 201
        assert (await api.post("/topics/orders/messages", {"text": "a"})).status == 201
        (read,) = (await api.get("/topics/orders/queues/0/messages", offset=0)).json["messages"]
        assert read["body"] == "YQ=="
        processes = (await api.get("/diagnostics")).json["processes"]
        assert {each["process"] for each in processes} >= {"worker-0", "worker-1"}
        first = next(each for each in psutil.Process(proxy.process.pid).children() if each.cmdline()[-1] == "worker-0")
        first.kill()

        async def topic() -> int:
            return (await api.get("/topics/orders")).status

        await until(topic, lambda status: status == 200)
        assert (await api.get("/topics/nobody")).code == "TOPIC_NOT_FOUND"
