"""Users and policies by the requests of mqadmin, and rights for the requests of operators."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.embedded import Embedded, local_settings
from tests.support.ports import ANY_PORT
from tests.support.remoting_client import RemotingClient
from tests.support.users import SECRET
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
ENTRY = {"resource": "Topic:own-*", "actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.0/8"], "decision": "Allow"}


async def test_a_user_is_made_changed_shown_and_deleted(remoting: RemotingClient) -> None:
    user = {"username": "u-4x", "password": SECRET, "userType": "Normal", "userStatus": "enable"}
    assert (await remoting.call(3001, json.dumps(user).encode(), username="u-4x")).code == 0
    shown = await remoting.call(3004, username="u-4x")
    assert json.loads(shown.body) == {"username": "u-4x", "userType": "Normal", "userStatus": "enable"}
    assert SECRET.encode() not in shown.body
    change = {"username": "u-4x", "userStatus": "disable", "userType": "Super", "password": SECRET + "2"}
    changed = await remoting.call(3002, json.dumps(change).encode(), username="u-4x")
    assert (changed.code, changed.remark) == (0, "")
    listed = json.loads((await remoting.call(3005, filter="u-4")).body)
    assert listed == [{"username": "u-4x", "userType": "Super", "userStatus": "disable"}]
    assert (await remoting.call(3003, username="u-4x")).code == 0
    gone = await remoting.call(3004, username="u-4x")
    assert (gone.code, gone.body) == (0, b"")
    assert (await remoting.call(3002, json.dumps(change).encode(), username="u-4x")).code == 3001


async def test_policies_are_added_shown_and_taken_away(remoting: RemotingClient) -> None:
    user = {"username": "p-4x", "password": SECRET, "userType": "Normal"}
    assert (await remoting.call(3001, json.dumps(user).encode(), username="p-4x")).code == 0
    assert (await remoting.call(3009, subject="User:p-4x")).code == 3002
    deny = {"resource": "Group:own", "actions": ["Any"], "sourceIps": [], "decision": "Deny"}
    acl = {"subject": "User:p-4x", "policies": [{"policyType": "Custom", "entries": [ENTRY, deny]}]}
    assert (await remoting.call(3006, json.dumps(acl).encode(), subject="User:p-4x")).code == 0
    [policy] = json.loads((await remoting.call(3009, subject="User:p-4x")).body)["policies"]
    found = {entry["resource"]: entry for entry in policy["entries"]}
    assert found == {"Topic:own-*": ENTRY, "Group:own": {**deny, "actions": ["All"], "sourceIps": None}}
    [listed] = json.loads((await remoting.call(3010, subjectFilter="p-4x", resourceFilter="Topic")).body)
    assert [entry["resource"] for entry in listed["policies"][0]["entries"]] == ["Topic:own-*"]
    assert (await remoting.call(3008, subject="User:p-4x", resource="Group:own")).code == 0
    [policy] = json.loads((await remoting.call(3009, subject="User:p-4x")).body)["policies"]
    assert policy["entries"] == [ENTRY]
    changed = {"subject": "User:p-4x", "policies": [{"entries": [{**ENTRY, "decision": "Deny"}]}]}
    assert (await remoting.call(3007, json.dumps(changed).encode(), subject="User:p-4x")).code == 0
    [policy] = json.loads((await remoting.call(3009, subject="User:p-4x")).body)["policies"]
    assert policy["entries"] == [{**ENTRY, "decision": "Deny"}]
    assert (await remoting.call(3003, username="p-4x")).code == 0


async def test_who_has_no_user_has_no_policies(remoting: RemotingClient) -> None:
    acl = json.dumps({"subject": "User:nobody-4x", "policies": [{"entries": [ENTRY]}]}).encode()
    made = await remoting.call(3006, acl, subject="User:nobody-4x")
    assert (made.code, made.remark) == (16, "The subject of User:nobody-4x is not exist.")
    shown = await remoting.call(3009, subject="User:nobody-4x")
    assert (shown.code, shown.remark) == (16, "The subject is not exist.")


@pytest.mark.parametrize("code", [50, 51, 52, 53])
async def test_accounts_of_4x_are_refused_in_words(remoting: RemotingClient, code: int) -> None:
    refused = await remoting.call(code, accessKey="a")
    assert (refused.code, "createUser" in refused.remark) == (1, True)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    """A server with access control and one super user, `first`."""
    folder = tmp_path_factory.mktemp("guarded-remoting")
    settings = local_settings(folder, remoting=ANY_PORT, access_control=True, init_user="first", init_secret=SECRET)
    async with Embedded(settings) as running:
        yield running


async def test_requests_of_operators_need_rights(guarded: Embedded) -> None:
    async with await RemotingClient.connect(guarded.remoting) as client:
        unsigned = await client.call(106)
        assert (unsigned.code, unsigned.remark) == (16, "username cannot be null.")
        user = {"username": "reader", "password": SECRET, "userType": "Normal"}
        assert (await client.call_as("first", 3001, json.dumps(user).encode(), username="reader")).code == 0
        entry = {**ENTRY, "actions": ["Get", "Sub"], "sourceIps": []}
        acl = {"subject": "User:reader", "policies": [{"policyType": "Custom", "entries": [entry]}]}
        assert (await client.call_as("first", 3006, json.dumps(acl).encode(), subject="User:reader")).code == 0
        for topic in ("own-topic", "foreign-topic"):
            assert (await client.call_as("first", 17, topic=topic, readQueueNums=2, writeQueueNums=2)).code == 0
        assert (await client.call_as("reader", 202, topic="own-topic")).code == 0
        listed = json.loads((await client.call_as("reader", 21)).body)["topicConfigTable"]
        assert set(listed) == {"own-topic"}
        for code, fields in FORBIDDEN.items():
            refused = await client.call_as("reader", code, b"{}", **fields)
            assert (code, refused.code) == (code, 16), refused.remark
            assert "reader" in refused.remark


FORBIDDEN: dict[int, dict[str, object]] = {
    17: {"topic": "another", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6},
    26: {},
    28: {},
    100: {"namespace": "ORDER_TOPIC_CONFIG", "key": "foreign-topic", "value": "b:2"},
    101: {"namespace": "of-the-cluster", "key": "k"},
    102: {"namespace": "of-the-cluster", "key": "k"},
    106: {},
    202: {"topic": "foreign-topic"},
    203: {"consumerGroup": "foreign-group"},
    204: {"producerGroup": "foreign-group"},
    205: {"brokerName": "b"},
    207: {"groupName": "foreign-group"},
    208: {"consumerGroup": "foreign-group"},
    215: {"topic": "foreign-topic"},
    216: {"topic": "foreign-topic"},
    219: {"namespace": "of-the-cluster"},
    222: {"topic": "foreign-topic", "group": "foreign-group", "timestamp": -1, "isForce": True},
    223: {"topic": "foreign-topic", "group": "foreign-group"},
    300: {"topic": "foreign-topic"},
    303: {"topic": "foreign-topic", "group": "foreign-group"},
    306: {},
    307: {"consumerGroup": "foreign-group", "clientId": "c"},
    308: {"topic": "foreign-topic", "compareGroup": "foreign-group"},
    309: {"consumerGroup": "foreign-group", "clientId": "c", "msgId": "m"},
    314: {"srcGroup": "foreign-group", "destGroup": "other-group", "topic": "own-topic"},
    315: {"statsName": "TOPIC_PUT_NUMS", "statsKey": "foreign-topic"},
    319: {},
    321: {"topic": "foreign-topic", "queueId": 0, "index": 0, "count": 1},
    328: {},
    343: {"group": "foreign-group"},
    345: {"group": "foreign-group", "topic": "own-topic"},
    351: {"topic": "foreign-topic"},
    352: {"group": "foreign-group"},
    353: {"group": "foreign-group", "topic": "own-topic"},
    901: {"clusterName": "DefaultCluster", "brokerName": "b"},
    907: {},
    3003: {"username": "first"},
    3004: {"username": "first"},
    3005: {"filter": ""},
    3010: {"subjectFilter": ""},
    200052: {"topic": "own-topic", "consumerGroup": "foreign-group", "queueId": -1, "maxMsgNums": 1},
    200054: {"topic": "own-topic", "consumerGroup": "foreign-group", "queueId": -1, "pollTime": 0},
    200055: {"topic": "own-topic", "consumerGroup": "foreign-group", "queueId": -1},
}
"""Requests that a user without policies for them may not make."""
