"""What operators can do, called with plain values, whatever front has read them."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from msgspec import structs

from ternmq_common.access.actions import AccessAction
from ternmq_common.access.resources import AccessResource
from ternmq_common.access.users import AccessPolicy, AccessSnapshot, AccessUser
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.model import ConsumerGroup, QueueRef, Topic
from ternmq_common.wire import encode_field
from ternmq_proxy.access.audit import AuditLog
from ternmq_proxy.access.control import AccessControl, RightsRevoked
from ternmq_proxy.call import Call
from ternmq_proxy.operations.admin.groups.group_offsets import OffsetReset, Target, reset_offsets
from ternmq_proxy.operations.admin.groups.group_settings import create_group
from ternmq_proxy.operations.admin.messages.message_search import MessagePlace, describe_message
from ternmq_proxy.operations.admin.topics.topic_removal import purge_topic
from ternmq_proxy.operations.admin.topics.topic_settings import WantedTopic, create_topic
from ternmq_proxy.operations.receive import ReceiveRequest, receive_messages
from ternmq_proxy.processors.sending.stored_form import drop_body
from ternmq_proxy.services import Services
from tests.support.operations import BROKER, Stack, body_of
from tests.support.until import until

if TYPE_CHECKING:
    from ternmq_proxy.access.authentication import RequestAuthentication, UserIdentity

CALL = Call(client_id="operator", peer="127.0.0.1:9")
TOPIC, GROUP = "orders", "billing"


def wanted(retention_ms: int = 0) -> WantedTopic:
    topic = Topic(name=TOPIC, type=MessageType.NORMAL, queues=2, retention_ms=retention_ms)
    return WantedTopic(topic, frozenset({"retention"} if retention_ms else ()))


async def test_a_topic_is_created_once_and_not_with_other_settings(services: Services) -> None:
    assert await create_topic(TOPIC, wanted, CALL, services)
    assert not await create_topic(TOPIC, wanted, CALL, services)
    with pytest.raises(MessagingError, match="retention as each broker has it"):
        await create_topic(TOPIC, lambda: wanted(60_000), CALL, services)


async def test_a_purge_says_what_each_queue_held_and_holds(stack: Stack) -> None:
    await stack.create_topic(TOPIC, queues=2)
    await stack.store(TOPIC, b"0", b"1", queue_id=1)
    planned = await purge_topic(TOPIC, CALL, stack.services, dry_run=True)
    assert [(each.queue.queue_id, each.first, each.after) for each in planned] == [(0, 0, 0), (1, 0, 2)]
    assert len(await stack.bodies(TOPIC, queue_id=1)) == 2
    assert await purge_topic(TOPIC, CALL, stack.services) == planned
    assert not await stack.bodies(TOPIC, queue_id=1)


async def test_a_group_moves_to_an_offset_within_its_queue(stack: Stack) -> None:
    await stack.create_topic(TOPIC)
    await stack.store(TOPIC, b"0", b"1", b"2")
    assert await create_group(GROUP, lambda: ConsumerGroup(name=GROUP), CALL, stack.services)
    to = OffsetReset(group=GROUP, topic=TOPIC, target=Target.OFFSET, number=9)
    [move] = await reset_offsets(to, CALL, stack.services)
    assert (move.queue, move.before, move.after) == (QueueRef(TOPIC, BROKER, 0), -1, 3)
    [back] = await reset_offsets(replace(to, target=Target.SHIFT, number=-2), CALL, stack.services)
    assert (back.before, back.after) == (3, 1)


def test_a_body_is_dropped_wherever_it_stands() -> None:
    body, other = encode_field(b"\x22", b"secret"), encode_field(b"\x7a", b"other")
    assert drop_body(other + body + other) == drop_body(other + other)
    assert b"secret" not in drop_body(other + body)


# --- rights


class Users:
    """The user "one", with access control on. `identity` stands for what its signature proved."""

    def __init__(self, stack: Stack, path: Path) -> None:
        self.path = path
        self.snapshot = AccessSnapshot()
        self.log = AuditLog(path, bytes_max=1 << 20, files=1, wall_ms=lambda: 0)
        known = SimpleNamespace(is_still=lambda identity: True)
        self.access = AccessControl(lambda: self.snapshot, cast("RequestAuthentication", known), self.log)
        self.services = replace(stack.services, access=self.access)
        identity = cast("UserIdentity", SimpleNamespace(user="one"))
        self.call = structs.replace(CALL, user="one", identity=identity)

    def allow(self, *rights: str) -> None:
        policies = [
            AccessPolicy(resource=AccessResource.parse_resource(resource), actions=AccessAction.parse_actions(actions))
            for resource, actions in (right.split() for right in rights)
        ]
        self.snapshot = AccessSnapshot({"one": AccessUser(name="one", policies=tuple(policies))})

    async def wait_for_message(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        request = ReceiveRequest(group=GROUP, topic=TOPIC, batch=1, invisible_ms=60_000, poll_s=60.0)
        await receive_messages(request, structs.replace(self.call, cancel=task.cancel), self.services)

    def audit_log(self) -> list[tuple[str, str, bool]]:
        """Calls and resources, and whether they were allowed."""
        self.log.flush(5.0)
        entries = map(json.loads, self.path.read_text().splitlines())
        return [(entry["call"], entry["resource"], entry["allowed"]) for entry in entries]


@pytest.fixture
def users(stack: Stack, tmp_path: Path) -> Iterator[Users]:
    users = Users(stack, tmp_path / "audit.log")
    yield users
    users.log.close()


def unknown_settings() -> WantedTopic:
    raise MessagingError(ErrorCode.BAD_REQUEST, "these settings are none")


@pytest.mark.plain
async def test_a_refusal_comes_before_what_else_is_wrong_and_is_in_the_audit_log(users: Users) -> None:
    users.allow("Topic:other Create")
    with pytest.raises(MessagingError) as refused:
        await create_topic(TOPIC, unknown_settings, users.call, users.services)
    assert refused.value.code == ErrorCode.UNAUTHORIZED
    users.allow("Topic:orders Create")
    with pytest.raises(MessagingError, match="these settings are none"):
        await create_topic(TOPIC, unknown_settings, users.call, users.services)
    resource = f"Topic:{TOPIC}"
    assert users.audit_log() == [("CreateTopic", resource, False), ("CreateTopic", resource, True)]


@pytest.mark.plain
async def test_bodies_are_for_those_who_may_receive_them(stack: Stack, users: Users) -> None:
    await stack.create_topic(TOPIC)
    await stack.store(TOPIC, b"secret")
    users.allow("Topic:orders Get")
    place = MessagePlace(TOPIC, queue_id=0, offset=0)
    looked_at = await describe_message(place, users.call, users.services)
    assert b"secret" not in looked_at.message.rest
    users.allow("Topic:orders Sub")
    received = await describe_message(place, users.call, users.services)
    assert body_of(received.message) == b"secret"


@pytest.mark.plain
async def test_a_receive_that_waits_ends_when_its_user_loses_the_right(stack: Stack, users: Users) -> None:
    await stack.create_topic(TOPIC)
    await stack.create_group(ConsumerGroup(name=GROUP))
    users.allow("Topic:orders Sub", "Group:billing Sub")
    waiting = asyncio.create_task(users.wait_for_message())
    await until(lambda: bool(users.access.watched))
    users.allow("Topic:orders Sub")
    await users.access.revoke_lost_rights()
    with pytest.raises(RightsRevoked):
        await waiting
    assert not users.access.watched
