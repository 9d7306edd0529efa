"""The test clock: who may move it, who is told of it, and what a jump does and does not."""

import asyncio
import json
from pathlib import Path
from urllib.request import urlopen

import pytest

from ternmq_common.limits import DAY_MS
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.pool import Duration
from tests.support.embedded import Embedded, RawClient, code, local_settings
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
POLL_S = 10.0
HOUR_S = 3600


async def advance(client: RawClient, by: Duration) -> admin_pb2.AdvanceClockResponse:
    answer = await client.admin("AdvanceClock", by=by)
    assert isinstance(answer, admin_pb2.AdvanceClockResponse)
    return answer


async def info(client: RawClient) -> admin_pb2.GetServerInfoResponse:
    answer = await client.admin("GetServerInfo")
    assert isinstance(answer, admin_pb2.GetServerInfoResponse)
    return answer


# --- moving it


async def test_the_clock_of_an_ordinary_server_stays_where_it_is(client: RawClient) -> None:
    before = await info(client)
    answer = await advance(client, Duration(seconds=HOUR_S))
    assert code(answer) == "FORBIDDEN"
    assert "--test-clock" in answer.status.message
    after = await info(client)
    assert not after.test_clock
    assert after.now.ToMilliseconds() - before.now.ToMilliseconds() < HOUR_S * 1000


async def test_the_servers_time_goes_ahead_by_what_was_asked(timed: RawClient) -> None:
    before = await info(timed)
    assert before.test_clock
    answer = await advance(timed, Duration(seconds=HOUR_S, nanos=5_000_000))
    assert code(answer) == "OK"
    after = await info(timed)
    moved_ms = answer.now.ToMilliseconds() - before.now.ToMilliseconds()
    assert moved_ms >= HOUR_S * 1000 + 5
    assert answer.now.ToMilliseconds() <= after.now.ToMilliseconds()
    assert after.started == before.started


@pytest.mark.parametrize(
    "by",
    [
        Duration(),
        Duration(nanos=999_999),
        Duration(seconds=-1),
        Duration(seconds=3650 * DAY_MS // 1000, nanos=1_000_000),
        Duration(seconds=2**62),
        Duration(seconds=-(2**62)),
    ],
    ids=repr,
)
async def test_no_time_and_too_much_are_bad_requests(timed: RawClient, by: Duration) -> None:
    before = await timed.server_ms()
    assert code(await advance(timed, by)) == "BAD_REQUEST"
    assert await timed.server_ms() - before < 60_000


async def test_the_clock_ends_before_timestamps_do(tmp_path: Path) -> None:
    settings = local_settings(tmp_path, test_clock=True)
    decade = Duration(seconds=3650 * DAY_MS // 1000)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        answers = [await advance(client, decade) for _ in range(700)]
        codes = [code(answer) for answer in answers]
        assert codes == sorted(codes, reverse=True)  # OK, then BAD_REQUEST
        assert set(codes) == {"OK", "BAD_REQUEST"}
        assert (await info(client)).now.ToDatetime().year < 9000


# --- being told


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/version"])
async def test_http_tells_of_it(server: Embedded, movable_server: Embedded, path: str) -> None:
    def fetch(address: str) -> dict[str, object]:
        with urlopen(f"http://{address}{path}", timeout=POLL_S) as answer:
            content: dict[str, object] = json.load(answer)
            return content

    assert (await asyncio.to_thread(fetch, movable_server.http))["test_clock"] is True
    assert "test_clock" not in await asyncio.to_thread(fetch, server.http)


# --- what a jump does


async def test_a_jump_takes_nothing_from_a_push_consumer(
    timed: RawClient, second: RawClient, new_topic: str, group: str
) -> None:
    await timed.create_topic(new_topic)
    await timed.send(new_topic, b"body")
    held = await timed.receive(new_topic, group, auto_renew=True, invisible_s=None)
    await timed.advance(HOUR_S)
    assert (await second.receive(new_topic, group)).code == "MESSAGE_NOT_FOUND"
    [handle] = [each.system_properties.receipt_handle for each in held.messages]
    assert code(await timed.ack(new_topic, group, handle)) == "OK"
    await timed.advance(HOUR_S)
    assert (await second.receive(new_topic, group)).code == "MESSAGE_NOT_FOUND"


async def test_a_jump_expires_no_client(timed: RawClient, new_topic: str, group: str) -> None:
    await timed.create_topic(new_topic)
    await timed.receive(new_topic, group)
    await timed.advance(10 * HOUR_S)
    described = await timed.admin("DescribeGroup", name=group)
    assert list(described.client_ids) == [timed.client_id]


async def test_times_told_to_clients_are_the_servers(timed: RawClient, new_topic: str, group: str) -> None:
    await timed.create_topic(new_topic)
    now = await timed.advance(HOUR_S)
    await timed.send(new_topic, b"body")
    received = await timed.receive(new_topic, group, invisible_s=2 * HOUR_S)
    assert received.delivered is not None
    assert received.delivered.ToMilliseconds() >= now
    properties = received.messages[0].system_properties
    assert properties.born_timestamp.ToMilliseconds() >= now  # the client did not say
    assert properties.store_timestamp.ToMilliseconds() >= now
    await timed.advance(HOUR_S)
    described = await timed.admin("DescribeGroup", name=group)
    assert described.progress[0].oldest_age.ToSeconds() >= HOUR_S
