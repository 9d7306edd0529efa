"""What requests of producers and of tools need, where access control is on."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.message_ids import decode_offset_id
from tests.support.embedded import Embedded, local_settings
from tests.support.ports import ANY_PORT
from tests.support.remoting_client import RemotingClient
from tests.support.users import SECRET, Users

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOPIC, REPLIES = "rights", "DefaultCluster_REPLY_TOPIC"
ALWAYS = {"beginTimestamp": 0, "endTimestamp": 2**63 - 1, "maxNum": 64}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def users(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Users]:
    with pytest.MonkeyPatch.context() as patch:
        yield Users().serve(patch)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(users: Users, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    folder = tmp_path_factory.mktemp("guarded-remoting")
    settings = local_settings(folder, remoting=ANY_PORT, access_control=True, init_user="first", init_secret=SECRET)
    users.put("root", is_super=True)
    async with Embedded(settings) as server:
        yield server


async def send(client: RemotingClient, user: str, properties: str) -> Command:
    return await client.call_as(user, 310, b"x", a="PG", b=TOPIC, d=1, e=0, f=0, g=0, h=0, i=properties)


@pytest.mark.parametrize(
    "policy", ["Topic:rights Pub", "Topic:rights Sub", "Topic:rights Get", "Topic:other Pub,Sub,Get"]
)
async def test_a_request_needs_the_right_that_the_protocol_names(guarded: Embedded, users: Users, policy: str) -> None:
    name = f"user-{policy.replace(' ', '-')}"
    users.put(name, f"allow {policy}")
    right = policy.removeprefix("Topic:rights ")
    async with await RemotingClient.connect(guarded.remoting) as client:
        stored = await send(client, "root", "UNIQ_KEY\x01S1\x02KEYS\x01k")
        _, number = decode_offset_id(stored.fields["msgId"])
        half = await send(client, "root", f"UNIQ_KEY\x01{name}\x02TRAN_MSG\x01true\x02PGROUP\x01PG")
        timed = await send(client, "root", f"UNIQ_KEY\x01T{name}\x02TIMER_DELAY_SEC\x0160")
        end = {
            "producerGroup": "PG",
            "tranStateTableOffset": half.fields["queueOffset"],
            "commitLogOffset": decode_offset_id(half.fields["msgId"])[1],
            "commitOrRollback": 8,
            "msgId": name,
        }
        recall = {"topic": TOPIC, "recallHandle": timed.fields["recallHandle"]}
        codes = {
            "37": (await client.call_as(name, 37, **end)).code,
            "370": (await client.call_as(name, 370, **recall)).code,
            "12": (await client.call_as(name, 12, topic=TOPIC, key="k", **ALWAYS)).code,
            "33": (await client.call_as(name, 33, offset=number)).code,
        }
    allowed = {"Pub": {"37", "370"}, "Sub": {"12"}, "Get": {"12", "33"}}.get(right, set())
    assert codes == {request: 0 if request in allowed else 16 for request in codes}


async def test_a_reply_needs_the_right_to_send_to_its_topic(guarded: Embedded, users: Users) -> None:
    users.put("replier", f"allow Topic:{REPLIES} Pub")
    users.put("other", "allow Topic:other Pub")
    fields = {"b": REPLIES, "e": 0, "i": "REPLY_TO_CLIENT\x01nobody"}
    async with await RemotingClient.connect(guarded.remoting) as client:
        assert (await client.call_as("other", 325, b"reply", **fields)).code == 16
        answer = await client.call_as("replier", 325, b"reply", **fields)
        assert (answer.code, "not connected" in answer.remark) == (1, True)


@pytest.mark.parametrize(
    ("policies", "may_pop", "may_set"),
    [
        (("Topic:rights Sub",), False, False),
        (("Group:poppers Sub",), False, False),
        (("Topic:rights Sub", "Group:poppers Sub"), True, False),
        (("Topic:rights Sub", "Group:poppers Sub,Update"), True, True),
    ],
)
async def test_pops_need_the_rights_of_a_consumer_and_their_mode_that_to_change_the_group(
    guarded: Embedded, users: Users, policies: tuple[str, ...], may_pop: bool, may_set: bool
) -> None:
    name = f"popper-{len(policies)}-{policies[-1].replace(' ', '-').replace(',', '-').replace(':', '-')}"
    users.put(name, *(f"allow {policy}" for policy in policies))
    place = {"consumerGroup": "poppers", "topic": TOPIC, "queueId": 0}
    pop = {**place, "queueId": -1, "maxMsgNums": 1, "invisibleTime": 30_000, "pollTime": 0}
    settle = {**place, "offset": 0, "extraInfo": f"0 1 {2**50} 0 0 broker-0 0 0"}
    mode = {"topic": TOPIC, "consumerGroup": "poppers", "mode": "POP", "popShareQueueNum": 0}
    asked = {"topic": TOPIC, "consumerGroup": "poppers", "clientId": "c", "strategyName": "AVG"}
    entry = {"c": "poppers", "t": TOPIC, "r": "0", "so": 0, "q": 0, "pt": 1, "it": 2**50, "b": "AQ=="}
    async with await RemotingClient.connect(guarded.remoting) as client:
        await send(client, "root", "UNIQ_KEY\x01P1")
        assert (await client.call_as("root", 401, json.dumps(mode).encode())).code == 0
        async with await RemotingClient.connect(guarded.remoting) as own:
            codes = [
                (await own.call_as(name, 200050, **pop)).code != 16,
                (await own.call_as(name, 200051, **settle)).code != 16,
                (await own.call_as(name, 200053, **settle, invisibleTime=1000)).code != 16,
                (await own.call_as(name, 200151, json.dumps({"acks": [entry]}).encode())).code != 16,
                (await own.call_as(name, 400, json.dumps(asked).encode())).code != 16,
            ]
            assert codes == [may_pop] * len(codes)
            assert ((await own.call_as(name, 401, json.dumps(mode).encode())).code == 0) is may_set
