"""Request and reply: a request is an ordinary message, and its reply is pushed to who waits for it."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ternmq_proxy.fronts.remoting.replies import PUSH_REPLY
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.message_records import decode_records
from tests.support.embedded import Embedded
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
TOPIC = "DefaultCluster_REPLY_TOPIC"
PUSHED = 326


@pytest_asyncio.fixture(loop_scope="session")
async def requester(server: Embedded) -> AsyncIterator[RemotingClient]:
    """A client that waits for replies, and confirms them."""
    async with await RemotingClient.connect(server.remoting) as client:
        client.answers[PUSHED] = Command(0)
        yield client


async def reply(client: RemotingClient, to: str, body: bytes = b"reply", **more: object) -> Command:
    """Send a reply (325), as a client makes it of a request."""
    properties = {"MSG_TYPE": "reply", "CORRELATION_ID": "c1", "REPLY_TO_CLIENT": to, "TTL": "3000"}
    text = "\x02".join(f"{name}\x01{value}" for name, value in properties.items() if value)
    fields: dict[str, object] = {"a": "RG", "b": TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 123, "h": 5}
    return await client.call(325, body, **(fields | {"i": text, "j": 0, "k": False} | more))


async def test_a_reply_is_pushed_to_the_client_that_asked(server: Embedded, requester: RemotingClient) -> None:
    await requester.heartbeat("requester-1", producers=("asking-4x",))
    async with await RemotingClient.connect(server.remoting) as replier:
        asked = {"CORRELATION_ID": "c1", "REPLY_TO_CLIENT": "requester-1", "TTL": "3000"}
        await requester.send("requests-4x", b"request", properties=asked)
        await replier.heartbeat("replier-1", consumers={"replying-4x": ["requests-4x"]})
        [request] = decode_records((await replier.pull("replying-4x", "requests-4x")).body)
        pairs = dict(pair.split("\x01", 1) for pair in request.properties.split("\x02") if pair)
        assert asked.items() <= pairs.items()
        answer = await reply(replier, pairs["REPLY_TO_CLIENT"])
        assert (answer.code, answer.fields["MSG_REGION"]) == (0, "DefaultRegion")
        assert len(answer.fields["msgId"]) == 32  # it is stored, too
        pushed = await asyncio.wait_for(requester.pushed.get(), 10)
        assert (pushed.code, pushed.body, pushed.is_oneway) == (PUSHED, b"reply", False)
        expected = {"topic": TOPIC, "flag": "5", "sysFlag": "0", "bornTimestamp": "123", "producerGroup": "RG"}
        assert expected.items() <= pushed.fields.items()
        properties = dict(pair.split("\x01", 1) for pair in pushed.fields["properties"].split("\x02") if pair)
        assert (properties["CORRELATION_ID"], properties["MSG_TYPE"]) == ("c1", "reply")
        assert properties["PUSH_REPLY_TIME"] == pushed.fields["storeTimestamp"]
        assert pushed.fields["bornHost"].startswith("127.0.0.1:")
        assert pushed.fields["storeHost"] == server.remoting


async def test_both_headers_of_replies_are_read_and_a_body_may_be_missing(
    remoting: RemotingClient, requester: RemotingClient
) -> None:
    await requester.heartbeat("requester-2", producers=("asking-4x",))
    fields = {"topic": TOPIC, "queueId": 0, "sysFlag": 0, "flag": 1, "bornTimestamp": 1}
    long = await remoting.call(324, b"long", **fields, properties="REPLY_TO_CLIENT\x01requester-2")
    assert long.code == 0
    assert (await requester.pushed.get()).body == b"long"
    bare = await reply(remoting, "requester-2", b"")
    assert (bare.code, bare.fields["msgId"]) == (0, "0")
    assert (await requester.pushed.get()).body == b""


async def test_a_reply_to_nobody_is_refused(remoting: RemotingClient, requester: RemotingClient) -> None:
    await requester.heartbeat("requester-3", producers=("asking-4x",))
    await requester.close()
    assert (await reply(remoting, "requester-3")).code == 1
    answer = await reply(remoting, "nobody")
    remark = "push reply message fail, client <nobody> is not connected"
    assert (answer.code, answer.remark, answer.fields["TRACE_ON"]) == (1, remark, "true")
    answer = await reply(remoting, "")
    assert (answer.code, answer.remark) == (1, "REPLY_TO_CLIENT is null, can not reply message")


@pytest.mark.parametrize(
    ("answered", "code"), [(b"pushed", 0), (b"failed", 1), (b"absent", 1), (None, 1)], ids=["pushed", "f", "a", "late"]
)
async def test_the_client_may_be_at_another_proxy(
    remoting: RemotingClient, others: dict[str, dict[str, bytes | None]], answered: bytes | None, code: int
) -> None:
    others[PUSH_REPLY] = {"one": b"absent", "two": answered}
    answer = await reply(remoting, "elsewhere")
    assert answer.code == code
    is_absent = "not connected" in answer.remark
    assert is_absent == (answered == b"absent")


async def test_the_reply_topic_has_a_route(remoting: RemotingClient) -> None:
    assert json.loads((await remoting.call(105, topic=TOPIC)).body)["queueDatas"]
