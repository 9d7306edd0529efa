"""Creates the topics and groups that a framework's application needs, by TernMQ's admin service.

On a server without that service, such as Apache RocketMQ, the operator has to create them: what is missing there is
noticed when it is used.
"""

import logging
from collections.abc import Mapping

from ternmq.admin.clients.client import Admin
from ternmq.admin.requests.words import TopicType
from ternmq.errors import BadRequest, NotFound, Unsupported
from ternmq.options import ClientOptions
from ternmq_protos.v2 import definition_pb2 as pb

logger = logging.getLogger(__name__)


async def declare_objects(
    endpoint: str,
    topics: Mapping[str, TopicType],
    groups: Mapping[str, str] | None = None,
    *,
    options: ClientOptions,
    any_type: bool = False,
) -> None:
    """Create those of `topics` (with their types) and of `groups` (with where they begin: `earliest`, `latest` or
    `auto`) that don't exist.

    `BadRequest` for a topic of another type, unless `any_type`; what exists is not changed.
    """
    async with Admin(endpoint, credentials=options.get("credentials"), tls=options.get("tls", False)) as admin:
        try:
            for topic, kind in topics.items():
                await _declare_topic(admin, topic, kind, any_type=any_type)
            for group, consume_from in (groups or {}).items():
                await _declare_group(admin, group, consume_from)
        except Unsupported:
            logger.info("%s has no admin service of TernMQ; its operator has to create topics and groups", endpoint)


async def _declare_topic(admin: Admin, name: str, kind: TopicType, *, any_type: bool) -> None:
    found = await _find_type(admin, name)
    if found is None:
        try:
            await admin.create_topic(name, kind)
        except BadRequest:
            found = await _find_type(admin, name)
            if found is None:
                raise
        else:
            return  # it was created, or another caller was faster, with the same settings
    if found != kind and not any_type:
        raise BadRequest(pb.BAD_REQUEST, f"topic {name} is of type {found}, but has to be {kind} here")


async def _declare_group(admin: Admin, name: str, consume_from: str) -> None:
    if await _has_group(admin, name):
        return
    try:
        await admin.create_group(name, consume_from=consume_from)
    except BadRequest:
        if not await _has_group(admin, name):  # else another caller was faster, with other settings
            raise


async def _has_group(admin: Admin, name: str) -> bool:
    try:
        await admin.describe_group(name)
    except NotFound:
        return False
    return True


async def _find_type(admin: Admin, name: str) -> str | None:
    try:
        return (await admin.describe_topic(name)).topic.type
    except NotFound:
        return None
