"""Requests about topics: create and change (17, 18), delete (215), list (21, 305), one (351), its readers (300).

Types       attribute `message.type` says what a topic accepts. Without it a new topic accepts all types, as topics of
            RocketMQ 4.x do, and an existing topic keeps its type.
Queues      a topic has as many queues to read as to write: the larger number of a request counts. They never get fewer.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.catalog.cluster import QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_topic_name, retry_topic
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS
from ternmq_common.shard.model import Topic
from ternmq_proxy.access.needs import GROUP_LIST, TOPIC_LIST
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.answers import (
    answer_done,
    answer_json,
    answer_names,
    read_number,
    read_objects,
    read_text,
)
from ternmq_proxy.fronts.remoting.handlers.routes import INHERIT, READ, WRITE, permission_bits, system_topics
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.admin.pages import select_visible
from ternmq_proxy.operations.admin.topics.topic_list import describe_topic, describe_topic_status
from ternmq_proxy.operations.admin.topics.topic_removal import delete_topic
from ternmq_proxy.operations.admin.topics.topic_settings import WantedTopic, create_topic, update_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_rpc.remoting.commands import Command

TYPE_ATTRIBUTE = "message.type"
DEFAULT_PERMISSION = READ | WRITE
_MIXED = "MIXED"
_DEFAULT_QUEUES = 8
_PERMISSIONS = {
    READ | WRITE: QueuePermission.READ_WRITE,
    READ: QueuePermission.READ,
    WRITE: QueuePermission.WRITE,
    0: QueuePermission.NONE,
}


class _WantedTopic:
    """A topic as a request wants it. `type_name` is None if the request does not say."""

    def __init__(self, name: str, queues: int, permission: int, attributes: "Mapping[str, str]") -> None:
        self.name = name
        self.queues = queues
        bits = permission & ~INHERIT
        if bits not in _PERMISSIONS:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"permission {permission} is none of 2, 4, 6 and 7")
        self.permission = _PERMISSIONS[bits]
        unknown = sorted(attributes.keys() - {TYPE_ATTRIBUTE})
        if unknown:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"topics have no attribute {', '.join(unknown)} here")
        self.type_name = attributes.get(TYPE_ATTRIBUTE)


async def put_topic(context: "RemotingCall") -> "Command":
    """Answer 17."""
    command = context.command
    queues = max(
        command.get_int32("readQueueNums", _DEFAULT_QUEUES), command.get_int32("writeQueueNums", _DEFAULT_QUEUES)
    )
    permission = command.get_int32("perm", DEFAULT_PERMISSION)
    attributes = _parse_attributes(command.get_text("attributes", ""))
    await _put_topic(_WantedTopic(command.get_text("topic"), queues, permission, attributes), context)
    return answer_done()


async def put_topics(context: "RemotingCall") -> "Command":
    """Answer 18."""
    for content in read_objects(context.command.body, "topicConfigList"):
        queues = max(
            read_number(content, "readQueueNums", _DEFAULT_QUEUES),
            read_number(content, "writeQueueNums", _DEFAULT_QUEUES),
        )
        wanted = _WantedTopic(
            read_text(content, "topicName"),
            queues,
            read_number(content, "perm", DEFAULT_PERMISSION),
            _read_attributes(content.get("attributes")),
        )
        await _put_topic(wanted, context)
    return answer_done()


def _parse_attributes(text: str) -> dict[str, str]:
    """Return the attributes of `+message.type=FIFO,-other`, without those that are to be deleted."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    pairs = (part.removeprefix("+").partition("=") for part in parts if not part.startswith("-"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _read_attributes(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {str(name).removeprefix("+"): str(each) for name, each in value.items()}


async def _put_topic(wanted: _WantedTopic, context: "RemotingCall") -> None:
    """Create the topic, or change the existing one."""
    name = check_topic_name(wanted.name)
    try:
        await context.services.catalog.existing_topic(name)
    except MessagingError as error:
        if error.code != ErrorCode.TOPIC_NOT_FOUND:
            raise
        await create_topic(name, lambda: _make_topic(wanted), context.call, context.services)
    else:
        await update_topic(name, lambda known: _change_topic(known, wanted), context.call, context.services)


def _make_topic(wanted: _WantedTopic) -> WantedTopic:
    kind, mixed = _find_type(wanted.type_name or _MIXED)
    topic = Topic(name=wanted.name, type=kind, mixed=mixed, queues=wanted.queues, permission=wanted.permission)
    _check_settings(topic)
    return WantedTopic(topic, frozenset({"queues", "permission"}))


def _change_topic(known: Topic, wanted: _WantedTopic) -> Topic:
    if wanted.type_name is not None and wanted.type_name.upper() != known.type_name:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"topic {known.name!r} is {known.type_name}, and a topic keeps its type; delete it, or use another",
        )
    if wanted.queues < known.queues:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"topic {known.name!r} has {known.queues} queues on each broker; queues can be added, never taken away",
        )
    topic = replace(known, queues=wanted.queues, permission=wanted.permission)
    _check_settings(topic)
    return topic


def _check_settings(topic: Topic) -> None:
    for each in TOPIC_SETTINGS:
        if each.attribute == "queues":
            each.check_stored(topic.queues)


def _find_type(name: str) -> tuple[MessageType, bool]:
    """Return the type of that name, and whether all are accepted."""
    if name.upper() in (_MIXED, "UNSPECIFIED"):
        return MessageType.NORMAL, True
    try:
        return MessageType[name.upper()], False
    except KeyError:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{name[:40]!r} is no type of messages") from None


async def remove_topic(context: "RemotingCall") -> "Command":
    """Answer 215; a topic that is not there is no error."""
    name = check_topic_name(context.command.get_text("topic"))
    try:
        await delete_topic(name, context.call, context.services)
    except MessagingError as error:
        if error.code != ErrorCode.TOPIC_NOT_FOUND:
            raise
    return answer_done()


# --- looking


async def list_topics(context: "RemotingCall") -> "Command":
    """Answer 21: all topics, or those from number `topicSeq` on, in an order that stays."""
    services, call = context.services, context.call
    found = [
        describe(topic) for topic in await select_visible(services.catalog.list_topics(), TOPIC_LIST, call, services)
    ]
    groups = await select_visible(services.catalog.list_groups(), GROUP_LIST, call, services)
    found += [describe(services.catalog.find_topic(retry_topic(group.name))) for group in groups]
    page = cut_sequence(found, "topicSeq", "maxTopicNum", context)
    body = {
        "dataVersion": data_version(context),
        "mappingDataVersion": data_version(context),
        "topicConfigTable": {each["topicName"]: each for each in page},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    return answer_json(body, totalTopicNum=len(found))


def cut_sequence(
    found: list[dict[str, object]], first_name: str, count_name: str, context: "RemotingCall"
) -> list[dict[str, object]]:
    """Return those that a request for a page wants; all if it says nothing of pages."""
    first = max(0, context.command.get_int32(first_name, 0))
    count = context.command.get_int32(count_name, len(found))
    return found[first : first + max(0, count)]


def data_version(context: "RemotingCall") -> dict[str, object]:
    """Return the version that the answers of this process have: tools compare them between pages."""
    return {"counter": 0, "stateVersion": 0, "timestamp": context.services.started_ms}


def describe(topic: Topic) -> dict[str, object]:
    """Return a topic as tools read it."""
    return {
        "attributes": {TYPE_ATTRIBUTE: topic.type_name},
        "order": topic.type == MessageType.FIFO,
        "perm": permission_bits(topic.permission),
        "readQueueNums": topic.queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic.name,
        "topicSysFlag": 0,
        "writeQueueNums": topic.queues,
    }


async def get_topic(context: "RemotingCall") -> "Command":
    """Answer 351."""
    name = context.command.get_text("topic")
    return answer_json(describe(await describe_topic_status(name, context.call, context.services, may_be_traces=True)))


async def list_system_topics(context: "RemotingCall") -> "Command":
    """Answer 305."""
    return answer_names(sorted(system_topics(context)))


async def list_groups(context: "RemotingCall") -> "Command":
    """Answer 300: the groups that have read the topic, or subscribe to it."""
    topic = context.command.get_text("topic")
    if topic in system_topics(context):
        return answer_json({"groupList": []})
    found = await describe_topic(topic, context.call, context.services, contents=True, may_be_traces=True)
    members, may = context.memberships.members, context.services.access.has_right
    # Brokers hear of new subscriptions a moment later.
    here = {group for group in members.consumer_groups() if topic in (members.subscriptions_of(group) or ())}
    visible = {group for group in here if may(context.call, GROUP_LIST, group)}
    return answer_json({"groupList": sorted({*found.groups, *visible})})
