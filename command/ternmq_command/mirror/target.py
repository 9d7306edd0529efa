"""The TernMQ server that messages are copied to, by its remoting protocol, by which a queue can be chosen."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from ternmq_command.calls.remoting_calls import (
    RemotingAccess,
    RemotingRefused,
    RemotingUnreachable,
    check_answer,
)
from ternmq_command.calls.remoting_link import RemotingLink
from ternmq_command.migration.apache_cluster import ALL_GROUPS, ALL_TOPICS, groups_of, topics_of
from ternmq_command.mirror.copies import Copy
from ternmq_command.mirror.positions import Queue
from ternmq_command.mirror.pulling import ANSWER_BYTES_MAX, Pulled, pull_messages
from ternmq_common.limits import QUEUES_MAX
from ternmq_rpc.remoting.commands import InvalidField
from ternmq_rpc.remoting.message_records import encode_batch

GROUP = "ternmq-mirror"
"""The group by which copies are read; it commits nothing."""
PAGE = 60
_SEND, _SEND_BATCH, _ROUTE = 310, 320, 105
_WRITE = 2
_QUERY_OFFSET, _COMMIT, _MINIMUM, _MEMBERS = 14, 15, 31, 203
_NOT_FOUND, _NOT_ONLINE = 22, 206
_SEND_TIMEOUT_S = 30.0


class TargetPlace(NamedTuple):
    """A queue of the target, and whether its broker takes messages now."""

    queue: Queue
    is_writable: bool


class Target:
    """`async with Target(address, access) as target: await target.refresh()`."""

    def __init__(self, address: str, access: RemotingAccess) -> None:
        self._link = RemotingLink(address, access, answer_max=ANSWER_BYTES_MAX)
        self.kinds: dict[str, str] = {}
        self.groups: frozenset[str] = frozenset()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._link.close()

    async def refresh(self) -> None:
        """Read which topics and groups there are."""
        self.kinds = {topic.name: topic.kind for topic in topics_of("", await self._link.read_table(ALL_TOPICS))}
        self.groups = frozenset(each.name for each in groups_of("", await self._link.read_table(ALL_GROUPS)))

    def has_topic(self, topic: str) -> bool:
        """Return whether there is a topic of that name."""
        return topic in self.kinds

    async def find_queues(self, topic: str) -> list[TargetPlace]:
        """Return the queues of a topic, which may be on some of the brokers only."""
        table = (await self._link.read_table(_ROUTE, topic=topic)).get("queueDatas")
        return [
            TargetPlace(Queue(str(each.get("brokerName")), topic, queue_id), is_writable=bool(permission & _WRITE))
            for each in (table if isinstance(table, list) else [])
            if isinstance(each, dict)
            and isinstance(permission := each.get("perm"), int)
            and isinstance(count := each.get("writeQueueNums"), int)
            for queue_id in range(min(count, QUEUES_MAX))
        ]

    async def send(self, queue: Queue, copies: Sequence[Copy]) -> int:
        """Store messages in the queue, all or none; return the offset of the first one."""
        first = copies[0]
        is_batch = len(copies) > 1
        fields = {
            "a": GROUP,
            "b": queue.topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue.queue_id),
            "f": str(first.system_flag),
            "g": str(first.stored_ms),
            "h": "0" if is_batch else str(first.part.flag),
            "i": "" if is_batch else first.part.properties,
            "j": str(first.reconsume_times),
            "k": "false",
            "m": "true" if is_batch else "false",
            "n": queue.broker,
        }
        code = _SEND_BATCH if is_batch else _SEND
        body = encode_batch([copy.part for copy in copies]) if is_batch else first.part.body
        answer = await self._link.request(code, fields, body, timeout_s=_SEND_TIMEOUT_S)
        try:
            return check_answer(answer, code, self._link.address).get_int64("queueOffset")
        except InvalidField as error:
            raise RemotingUnreachable(f"{self._link.address} answers a send with nonsense: {error}") from None

    async def pull(self, queue: Queue, offset: int) -> Pulled:
        """Pull messages, as `pull_messages` does."""
        return await pull_messages(self._link, GROUP, queue, offset, most=PAGE)

    async def find_begin(self, group: str, queue: Queue) -> int:
        """Return where the group is in the queue."""
        fields = {**_fields_of(queue), "consumerGroup": group, "setZeroIfNotFound": "false"}
        try:
            return await self._read_offset(_QUERY_OFFSET, fields)
        except RemotingRefused as refusal:
            if refusal.code != _NOT_FOUND:
                raise
        return await self._read_offset(_MINIMUM, _fields_of(queue))

    async def find_minimum(self, queue: Queue) -> int:
        """Return the offset of the first message that is kept."""
        return await self._read_offset(_MINIMUM, _fields_of(queue))

    async def commit(self, group: str, queue: Queue, offset: int) -> None:
        """Let the group go on at the offset."""
        fields = {**_fields_of(queue), "consumerGroup": group, "commitOffset": str(offset)}
        check_answer(await self._link.request(_COMMIT, fields), _COMMIT, self._link.address)

    async def has_members(self, group: str) -> bool:
        """Return whether a member of the group is connected."""
        try:
            await self._link.read_table(_MEMBERS, consumerGroup=group)
        except RemotingRefused as refusal:
            return refusal.code != _NOT_ONLINE
        return True

    async def _read_offset(self, code: int, fields: dict[str, str]) -> int:
        answer = check_answer(await self._link.request(code, fields), code, self._link.address)
        try:
            return max(0, answer.get_int64("offset"))
        except InvalidField as error:
            raise RemotingUnreachable(f"{self._link.address} answers with nonsense: {error}") from None


def _fields_of(queue: Queue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker}
