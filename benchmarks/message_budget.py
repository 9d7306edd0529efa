"""Measures our own code's CPU for a message of 256 bytes, without the transport: `python benchmarks/message_budget.py`.

The activities are called in this process, as a front calls them: parsed requests in, answers out. The targets:
send at most 25 us (check, route, append, result), delivery at most 12 us, acknowledgement at most 5 us, in batches of
32. `flush=async`, so that the disk does not count. Medians of several rounds of process CPU time.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from ternmq_common.server_settings import FlushMode, ServerSettings
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.activities.receive_message import receive_message
from ternmq_proxy.fronts.grpc.activities.send_message import send_message
from ternmq_proxy.fronts.grpc.activities.settle_message import ack_message
from ternmq_proxy.server.main import make_clock, open_storage
from ternmq_proxy.server.serving import make_services
from ternmq_proxy.services import Services

TOPIC = pb.Resource(name="budget")
GROUP = pb.Resource(name="readers")
BATCH = 32
BATCHES = 300
ROUNDS = 7
CALL = Call(client_id="budget", peer="127.0.0.1:1", remaining_s=23.0)


def message(number: int) -> pb.Message:
    properties = pb.SystemProperties(message_id=f"{number:034X}", keys=["key"], tag="tag", born_host="here")
    properties.born_timestamp.GetCurrentTime()
    return pb.Message(topic=TOPIC, body=bytes(256), user_properties={"a": "b"}, system_properties=properties)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = ServerSettings(data_dir=Path(folder), flush=FlushMode.ASYNC, grpc="127.0.0.1:0", http="127.0.0.1:0")
        async with AsyncExitStack() as stack:
            clock = make_clock(settings)
            messages, catalog = await open_storage(settings, clock, stack)
            services = make_services(settings, clock, catalog, messages, settings.grpc)
            figures: dict[str, list[float]] = {}
            for _ in range(ROUNDS):
                await one_round(services, figures)
    for name, values in figures.items():
        print(f"{name:<34} {statistics.median(values):6.1f} us a message")


async def one_round(services: Services, figures: dict[str, list[float]]) -> None:
    handles: list[rpc.AckMessageEntry] = []
    singles = [rpc.SendMessageRequest(messages=[message(n)]) for n in range(BATCH * 50)]
    batches = [rpc.SendMessageRequest(messages=[message(n) for n in range(BATCH)]) for _ in range(BATCHES)]

    async def send_singles() -> None:
        for request in singles:
            await send_message(request, CALL, services)

    async def send_batches() -> None:
        for request in batches:
            await send_message(request, CALL, services)

    async def receive_all() -> None:
        request = rpc.ReceiveMessageRequest(group=GROUP, message_queue=pb.MessageQueue(topic=TOPIC), batch_size=BATCH)
        request.invisible_duration.FromSeconds(60)
        request.long_polling_timeout.FromMilliseconds(1)
        while (received := await receive_message(request, CALL, services)).delivered_messages:
            for delivery in received.delivered_messages:
                text = services.handles.form_for(GROUP.name, TOPIC.name).encode_handle(delivery.handle).decode()
                handles.append(rpc.AckMessageEntry(message_id="id", receipt_handle=text))

    async def acknowledge_all() -> None:
        for start in range(0, len(handles), BATCH):
            request = rpc.AckMessageRequest(group=GROUP, topic=TOPIC, entries=handles[start : start + BATCH])
            await ack_message(request, CALL, services)

    count = len(singles) + BATCH * BATCHES
    await timed(figures, "send, one a request", len(singles), send_singles)
    await timed(figures, f"send, {BATCH} a request", BATCH * BATCHES, send_batches)
    await timed(figures, f"deliver, {BATCH} a request", count, receive_all)
    await timed(figures, f"acknowledge, {BATCH} a request", count, acknowledge_all)
    assert len(handles) == count


async def timed(figures: dict[str, list[float]], name: str, messages: int, work: Callable[[], Awaitable[None]]) -> None:
    began = time.process_time()
    await work()
    figures.setdefault(name, []).append((time.process_time() - began) / messages * 1e6)


if __name__ == "__main__":
    asyncio.run(main())
