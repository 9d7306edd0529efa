"""The TernMQ server that messages are copied to, by its remoting protocol, by which a queue can be chosen."""

from collections.abc import Sequence
from typing import Self

from ternmq_command.calls.remoting_calls import (
    CLUSTER_INFO,
    RemotingAccess,
    RemotingRefused,
    RemotingUnreachable,
    check_answer,
    masters_of,
)
from ternmq_command.calls.remoting_link import RemotingLink
from ternmq_command.migration.apache_cluster import ALL_GROUPS, ALL_TOPICS, groups_of, topics_of
from ternmq_command.mirror.copies import Copy
from ternmq_command.mirror.positions import Queue
from ternmq_command.mirror.pulling import ANSWER_BYTES_MAX, Pulled, pull_messages
from ternmq_common.names import RETRY_PREFIX
from ternmq_rpc.remoting.commands import InvalidField
from ternmq_rpc.remoting.message_records import encode_batch

GROUP = "ternmq-mirror"
"""The group by which copies are read; it commits nothing."""
PAGE = 60
_SEND, _SEND_BATCH = 310, 320
_QUERY_OFFSET, _COMMIT, _MINIMUM, _MEMBERS = 14, 15, 31, 203
_NOT_FOUND, _NOT_ONLINE = 22, 206
_SEND_TIMEOUT_S = 30.0


class Target:
    """`async with Target(address, access) as target: await target.refresh()`."""

    def __init__(self, address: str, access: RemotingAccess) -> None:
        self._link = RemotingLink(address, access, answer_max=ANSWER_BYTES_MAX)
        self._topics: dict[str, list[Queue]] = {}
        self._brokers: list[str] = []
        self.kinds: dict[str, str] = {}
        self.groups: frozenset[str] = frozenset()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._link.close()

    async def refresh(self) -> None:
        """Read which topics and groups there are."""
        self._brokers = sorted(masters_of(await self._link.read_table(CLUSTER_INFO)))
        if not self._brokers:
            raise RemotingUnreachable(f"{self._link.address} knows no broker")
        found: dict[str, list[Queue]] = {}
        groups: set[str] = set()
        for broker in self._brokers:
            for topic in topics_of(broker, await self._link.read_table(ALL_TOPICS, bname=broker)):
                self.kinds[topic.name] = topic.kind
                found.setdefault(topic.name, []).extend(Queue(broker, topic.name, each) for each in range(topic.queues))
            groups.update(
                each.name for each in groups_of(broker, await self._link.read_table(ALL_GROUPS, bname=broker))
            )
        self._topics, self.groups = found, frozenset(groups)

    def queues_of(self, topic: str) -> list[Queue]:
        """Return the queues of a topic, none if there is no such topic."""
        if topic.startswith(RETRY_PREFIX):
            return [Queue(broker, topic, 0) for broker in self._brokers]
        return self._topics.get(topic, [])

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
