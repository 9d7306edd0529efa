"""Measures how long a request, or a round of periodic work, blocks the event loop: `python benchmarks/loop_holds.py`.

Requests take the front's way, from their bytes to those of the answer, without the transport; a task that only yields
measures how long it had to wait. The target is 5 ms. The least of several rounds counts, since other load on the
machine only adds to it.
"""

import asyncio
import gc
import gzip
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.limits import KIB, MIB
from ternmq_common.server_settings import FlushMode, ServerSettings
from ternmq_common.shard.model import ConsumerGroup
from ternmq_protos.admin_v1 import admin_pb2 as admin
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.calls import admin_calls, messaging_calls
from ternmq_proxy.fronts.grpc.parsing import PIECE_BYTES, parse_in_pieces
from ternmq_proxy.fronts.grpc.request_size import RequestSize
from ternmq_proxy.server.main import make_clock, open_storage
from ternmq_proxy.server.serving import expire_silent_clients, make_services
from ternmq_proxy.services import Services

ROUNDS = 5
TOPICS = 10_000
GROUPS = 2_000
CLIENTS = 20_000
CALL = Call(client_id="bench", peer="127.0.0.1:1", remaining_s=23.0)
CALLS = {**messaging_calls(), **admin_calls()}


class Watch:
    """Yields as often as the loop lets it, and notes the longest wait."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            self.longest_s = max(self.longest_s, now - last)
            last = now

    def stop(self) -> None:
        self._task.cancel()


async def held_s(work: Callable[[], Awaitable[object]]) -> float:
    gc.collect()
    watch = Watch()
    await asyncio.sleep(0)
    await work()
    await asyncio.sleep(0)
    watch.stop()
    return watch.longest_s


async def served(name: str, request: Any, services: Services) -> Any:  # noqa: ANN401 - of the call's own type
    """Handle a request as the front does."""
    call = CALLS[name]
    data = request.SerializeToString()
    await asyncio.sleep(0)
    size = RequestSize(call.request, services.request_limits)
    await asyncio.sleep(0)
    if len(data) > size.unlooked_bytes_max:
        await size.check_bytes(data)
    parsed = await parse_in_pieces(call.request, data) if len(data) > PIECE_BYTES else call.request.FromString(data)
    size.check_entries(parsed)
    answer = await call.activity(parsed, CALL, services)
    if hasattr(answer, "SerializeToString"):
        answer.SerializeToString()
    return answer


def message(topic: str, number: int, body: bytes, **system: Any) -> pb.Message:  # noqa: ANN401 - fields
    properties = pb.SystemProperties(message_id=f"{number:034X}", keys=["key"], tag="tag", **system)
    properties.born_timestamp.GetCurrentTime()
    return pb.Message(topic={"name": topic}, body=body, user_properties={"a": "b"}, system_properties=properties)


def sending(topic: str, count: int, body: bytes, **system: Any) -> rpc.SendMessageRequest:  # noqa: ANN401 - fields
    return rpc.SendMessageRequest(messages=[message(topic, number, body, **system) for number in range(count)])


def receiving(topic: str, group: str, filter_: pb.FilterExpression | None = None) -> rpc.ReceiveMessageRequest:
    request = rpc.ReceiveMessageRequest(
        group={"name": group},
        message_queue={"topic": {"name": topic}},
        batch_size=32,
        filter_expression=filter_,
        auto_renew=True,
    )
    request.long_polling_timeout.FromMilliseconds(1)
    return request


def pulling(topic: str, filter_: pb.FilterExpression | None = None) -> rpc.PullMessageRequest:
    return rpc.PullMessageRequest(
        message_queue={"topic": {"name": topic}, "id": 0, "broker": {"name": "broker-0"}},
        offset=0,
        batch_size=256,
        filter_expression=filter_,
    )


class Holds:
    """Measures one thing after the other, and prints the least of several rounds."""

    def __init__(self, services: Services) -> None:
        self.services = services

    async def request(self, title: str, make: Callable[[], tuple[str, Any]]) -> None:
        requests = [make() for _ in range(ROUNDS)]
        await self.rounds(title, [partial(served, name, request, self.services) for name, request in requests])

    async def rounds(self, title: str, works: "list[Callable[[], Awaitable[object]]]") -> None:
        figures = [await held_s(work) * 1000 for work in works]
        print(f"{title:<58} {min(figures):7.1f} ms", flush=True)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = ServerSettings(
            data_dir=Path(folder),
            flush=FlushMode.ASYNC,
            grpc="127.0.0.1:0",
            http="127.0.0.1:0",
            default_queues=1,
        )
        async with AsyncExitStack() as stack:
            clock = make_clock(settings)
            messages, catalog = await open_storage(settings, clock, stack)
            services = make_services(settings, clock, catalog, messages, settings.grpc)
            holds = Holds(services)
            await of_messages(holds)
            await of_clients(holds)
            await of_administration(holds)


async def of_messages(holds: Holds) -> None:
    await holds.request("send 1,024 messages of 256 B", lambda: ("SendMessage", sending("small", 1024, bytes(256))))
    await holds.request("send 1,024 messages of 24 KiB", lambda: ("SendMessage", sending("mid", 1024, bytes(24 * KIB))))
    await holds.request("send 8 messages of 4 MiB", lambda: ("SendMessage", sending("large", 8, bytes(4 * MIB))))
    await holds.request("send 1 message of 4 MiB", lambda: ("SendMessage", sending("large", 1, bytes(4 * MIB))))
    squeezed = gzip.compress(bytes(4 * MIB - 1))
    await holds.request(
        "send 8 messages of 4 MiB, compressed",
        lambda: ("SendMessage", sending("gzip", 8, squeezed, body_encoding=pb.GZIP)),
    )
    topic = admin.Topic(name="halves", type=pb.TRANSACTION, queues=1)
    await served("CreateTopic", admin.CreateTopicRequest(topic=topic), holds.services)
    await holds.request("send 1,024 transactions", lambda: ("SendMessage", sending_transactions()))
    await holds.request("pull 256 messages of 256 B", lambda: ("PullMessage", pulling("small")))
    await holds.request("pull 4 MiB in one message", lambda: ("PullMessage", pulling("large")))
    await holds.request("receive 32 messages of 24 KiB", lambda: ("ReceiveMessage", receiving("mid", "g")))
    await holds.request("receive 4 MiB in one message", lambda: ("ReceiveMessage", receiving("large", "g")))
    await served("SendMessage", sending("wide", 64, bytes(128 * KIB - 200)), holds.services)
    await served("SendMessage", sending("wide", 128, bytes(128 * KIB - 200)), holds.services)
    await holds.request("receive 32 messages of 128 KiB", lambda: ("ReceiveMessage", receiving("wide", "g")))
    no_one = pb.FilterExpression(type=pb.SQL, expression="a LIKE '%x%' AND (a > 'y' OR TAGS IN ('p', 'q'))")
    await holds.request("pull with a filter that passes none", lambda: ("PullMessage", pulling("small", no_one)))
    await holds.request(
        "receive with a filter that passes none", lambda: ("ReceiveMessage", receiving("small", "f", no_one))
    )
    entries = await handles(holds.services, 1024 * ROUNDS)
    batches = iter([entries[start : start + 1024] for start in range(0, len(entries), 1024)])
    await holds.request(
        "acknowledge 1,024 messages",
        lambda: (
            "AckMessage",
            rpc.AckMessageRequest(group={"name": "acks"}, topic={"name": "small"}, entries=next(batches)),
        ),
    )


def sending_transactions() -> rpc.SendMessageRequest:
    return sending("halves", 1024, bytes(256), message_type=pb.TRANSACTION)


async def handles(services: Services, count: int) -> list[rpc.AckMessageEntry]:
    entries: list[rpc.AckMessageEntry] = []
    while len(entries) < count:
        for delivery in (await served("ReceiveMessage", receiving("small", "acks"), services)).deliveries:
            text = services.handles.form_for("acks", "small").encode_handle(delivery.handle).decode()
            entries.append(rpc.AckMessageEntry(message_id="id", receipt_handle=text))
    return entries[:count]


async def of_clients(holds: Holds) -> None:
    """Measure 20,000 clients, each of which holds a message."""
    services = holds.services

    async def come_and_go() -> None:
        for number in range(CLIENTS):
            services.clients.note_call(f"client-{number}", "g").last_seen = -1e9
            if not number % 100:
                await asyncio.sleep(0)
        await expire()

    async def expire() -> None:
        await expire_silent_clients(services)

    await holds.rounds(f"the care for {CLIENTS:,} clients, nothing to do", [expire] * ROUNDS)
    await holds.rounds(f"{CLIENTS:,} clients expire", [come_and_go] * 2)

    def hold_one() -> None:
        delivery = received.deliveries[0]
        for number in range(CLIENTS):
            services.renewal.hold_messages(f"client-{number}", "g", "small", [delivery])

    received = await served("ReceiveMessage", receiving("small", "g"), services)
    hold_one()
    await holds.rounds(f"renewal for {CLIENTS:,} clients, nothing to do", [services.renewal.renew_claims] * ROUNDS)
    services.renewal.shift_clock(-50_000)
    await holds.rounds(f"renewal for {CLIENTS:,} clients, all due", [services.renewal.renew_claims])


async def of_administration(holds: Holds) -> None:
    catalog = holds.services.catalog
    for number in range(TOPICS):
        await catalog.ensure_topic(f"topic-{number}", MessageType.NORMAL)
    for number in range(GROUPS):
        await catalog.ensure_group(f"group-{number}")
    await holds.request(f"ListTopics with {TOPICS:,} topics", lambda: ("ListTopics", admin.ListTopicsRequest()))
    await holds.request("DescribeTopic", lambda: ("DescribeTopic", admin.DescribeTopicRequest(name="small")))
    await holds.request(f"ListGroups with {GROUPS:,} groups", lambda: ("ListGroups", admin.ListGroupsRequest()))
    await holds.request("DescribeGroup", lambda: ("DescribeGroup", admin.DescribeGroupRequest(name="acks")))
    query = admin.QueryMessagesRequest(topic="small", key="key", limit=64)
    await holds.request("QueryMessages, 64 of 5,120 with the key", lambda: ("QueryMessages", query))
    transactions = admin.ListTransactionsRequest(limit=1000)
    await holds.request("ListTransactions", lambda: ("ListTransactions", transactions))
    assert isinstance(catalog.group_or_default("g"), ConsumerGroup)


if __name__ == "__main__":
    asyncio.run(main())
