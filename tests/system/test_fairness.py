"""Large requests give up the event loop while they are worked on, and places for answers are left again."""

import asyncio
import gzip
import itertools
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from ternmq_broker.consumption import popping
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.filters.tag_filter import TagFilter
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.limits import MIB
from ternmq_common.receiving.output_room import PLACES_MAX, AnswerRoom, OutputRoom
from ternmq_common.server_settings import FlushMode
from ternmq_common.shard.model import NewMessage, PopOrder, QueueRef
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.activities.admin.topics import list_topics
from ternmq_proxy.fronts.grpc.activities.receive_message import receive_message
from ternmq_proxy.fronts.grpc.activities.send_message import send_message
from ternmq_proxy.fronts.grpc.activities.settle_message import ack_message
from ternmq_proxy.server.main import make_clock, open_storage
from ternmq_proxy.server.serving import expire_silent_clients, make_services
from ternmq_proxy.services import Services
from ternmq_rpc.grpc_stream.served_call import ServedCall
from tests.support.embedded import Embedded, RawClient, local_settings, message, receive_request
from tests.system.conftest import SERVER_LOOP

T = TypeVar("T")
MANY = 1024
CALL = Call(client_id="c", peer="127.0.0.1:1", remaining_s=20)


@pytest.fixture
async def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Services]:
    monkeypatch.setattr(time, "perf_counter", map(float, itertools.count()).__next__)  # every step takes a second
    settings = local_settings(tmp_path, flush=FlushMode.ASYNC)
    async with AsyncExitStack() as stack:
        clock = make_clock(settings)
        messages, catalog = await open_storage(settings, clock, stack)
        yield make_services(settings, clock, catalog, messages, settings.grpc)


async def turns_during(work: Awaitable[T]) -> tuple[int, T]:
    """How often others came around meanwhile."""
    working, turns = asyncio.ensure_future(work), 0
    while not working.done():
        turns += 1
        await asyncio.sleep(0)
    return turns, working.result()


async def test_many_messages_and_their_acknowledgements_leave_turns_to_others(services: Services) -> None:
    request = rpc.SendMessageRequest(messages=[message("t") for _ in range(MANY)])
    turns, sent = await turns_during(send_message(request, CALL, services))
    assert sent.status.code == pb.OK
    assert turns > 2 * MANY  # once for each check, once for each stored form

    entries: list[rpc.AckMessageEntry] = []
    while len(entries) < MANY:
        received = await receive_message(receive_request("t", "g"), CALL, services)
        handles = [
            services.handles.form_for("g", "t").encode_handle(each.handle).decode()
            for each in received.delivered_messages
        ]
        entries += [rpc.AckMessageEntry(receipt_handle=handle) for handle in handles]
    ack = rpc.AckMessageRequest(group={"name": "g"}, topic={"name": "t"}, entries=entries)
    turns, answer = await turns_during(ack_message(ack, CALL, services))
    assert answer.status.code == pb.OK
    assert len(answer.entries) == MANY
    assert turns > MANY // 100


async def test_lists_and_rounds_over_everything_leave_turns_to_others(services: Services) -> None:
    for number in range(50):
        await services.catalog.ensure_topic(f"t{number}", MessageType.NORMAL)
        services.clients.note_call(f"c{number}", "g").last_seen = -1e9
    turns, listed = await turns_during(list_topics(admin_pb2.ListTopicsRequest(), CALL, services))
    assert len(listed.topics) == 50
    assert turns > 50
    turns, _ = await turns_during(expire_silent_clients(services))
    assert services.clients.find_client("c0") is None
    assert turns > 50


async def test_a_filter_that_passes_little_looks_at_so_many_messages_a_turn(services: Services) -> None:
    topic = await services.catalog.ensure_topic("t", MessageType.NORMAL)
    [broker] = services.messages.find_route(topic).brokers
    for queue_id in range(topic.queues):
        blue = [NewMessage(tag_hash("blue"), b"", b"", (str(number),)) for number in range(1000)]
        await services.messages.sending.append(QueueRef("t", broker, queue_id), blue)
    order = PopOrder(
        group="g",
        topic="t",
        queues=range(topic.queues),
        filter=TagFilter.parse_expression("red"),
        batch=32,
        invisible_ms=60_000,
    )
    turns, deliveries = await turns_during(services.messages.consuming.pop(order, broker="", poll_s=0))
    assert deliveries == []
    assert turns >= topic.queues * 1000 // popping.SCAN_ROWS


@pytest.mark.parametrize("encoding", [pb.IDENTITY, pb.GZIP])
async def test_large_bodies_are_hashed_and_inflated_beside_the_loop(
    services: Services, encoding: "pb.Encoding"
) -> None:
    body = bytes(4 * MIB)
    sent = message("t", gzip.compress(body) if encoding == pb.GZIP else body, body_encoding=encoding)
    send_ = send_message(rpc.SendMessageRequest(messages=[sent]), CALL, services)
    turns, answer = await turns_during(send_)
    assert answer.status.code == pb.OK
    assert turns > 20  # a single message takes no turns of its own: these are of the wait for the thread


@SERVER_LOOP
async def test_a_call_leaves_its_place_when_its_answer_is_written_or_cut(
    server: Embedded, client: RawClient, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = OutputRoom(lambda: 0, 1)
    monkeypatch.setattr(ServedCall, "open_answer_room", lambda _: AnswerRoom(room))
    for number in range(PLACES_MAX + 2):
        await client.send(topic, bytes(1 << 20))
        assert (await client.receive(topic, f"{group}-{number}", batch_size=1)).code == "OK"
    assert room.is_open
    async with RawClient(server.grpc) as leaving:
        for number in range(PLACES_MAX + 2):
            stream = leaving.stream("ReceiveMessage", receive_request(topic, f"{group}-cut-{number}"))
            assert (await stream.read()).status.code == pb.OK
            stream.cancel()
    async with asyncio.timeout(10):
        assert (await client.receive(topic, f"{group}-last", batch_size=1)).code == "OK"
