"""The source cluster, reached by its name servers and brokers; the mirror only reads it.

The list of brokers is refreshed at intervals (`refresh`): brokers join, leave, and become masters.
"""

import json
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
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
from ternmq_command.migration.apache_cluster import (
    ALL_GROUPS,
    ALL_TOPICS,
    BROKER_SYSTEM_TOPICS,
    NAMESRV_SYSTEM_TOPICS,
    groups_of,
    texts_of,
    topics_of,
)
from ternmq_command.migration.translation import is_users_group, is_users_topic
from ternmq_command.mirror.positions import Queue
from ternmq_command.mirror.pulling import ANSWER_BYTES_MAX, Pulled, pull_messages
from ternmq_common.names import RETRY_PREFIX
from ternmq_common.printable import cut_text, find_name_problem

READER_GROUP = "TOOLS_CONSUMER"
"""A group that each of Apache's brokers has for its tools; it commits nothing."""
BATCH = 60
"""In messages: as many of the largest size fit into an answer."""
_ALL_OFFSETS, _MEMBERS, _NOT_ONLINE = 43, 203, 206
_NUMBER_KEY = re.compile(rb"([{,]\s*)(\d{1,9})\s*:")
QUEUES_MAX = 10_000
"""That are copied; a source that says it has more is not believed."""


class Source:
    """`async with Source(addresses, access) as source: await source.refresh()`."""

    def __init__(self, name_servers: Sequence[str], access: RemotingAccess) -> None:
        self._name_servers = name_servers
        self._access = access
        self._stack = AsyncExitStack()
        self._links: dict[str, RemotingLink] = {}
        self._masters: dict[str, str] = {}
        self.cluster = ""
        self.queues: list[Queue] = []
        self.groups: list[str] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    @property
    def brokers(self) -> list[str]:
        """The names of all brokers."""
        return sorted(self._masters)

    async def refresh(self) -> None:
        """Read the brokers, queues and groups. Those of a broker that does not answer stay known.

        RemotingUnreachable if no name server or no broker answers; RemotingRefused.
        """
        name_server, content = await self._ask_name_servers()
        with_master = masters_of(content, others=False)
        for name, address in masters_of(content).items():
            if "/" in name or find_name_problem(name):
                raise RemotingUnreachable(f"the name server lists a broker with the name {cut_text(name)}")
            # A slave may lack the last messages: it is used only if no master was ever seen.
            if name in with_master or name not in self._masters:
                self._masters[name] = address
        if not self._masters:
            raise RemotingUnreachable(f"the name server {name_server.address} knows no broker with a master")
        clusters = content.get("clusterAddrTable")
        self.cluster = min(map(str, clusters), default="") if isinstance(clusters, dict) else ""
        system = set(texts_of((await name_server.read_table(NAMESRV_SYSTEM_TOPICS)).get("topicList")))
        queues: list[Queue] = []
        groups: set[str] = set()
        failure: RemotingUnreachable | None = None
        answered = 0
        for broker in self.brokers:
            try:
                queues += await self._read_queues(broker, system)
                listed = groups_of(broker, await self._link_of(broker).read_table(ALL_GROUPS))
                groups.update(each.name for each in listed if is_users_group(each.name))
                answered += 1
            except RemotingUnreachable as error:
                failure = error
                queues += [queue for queue in self.queues if queue.broker == broker]
                groups.update(self.groups)
        if failure is not None and not answered:
            raise failure
        if len(queues) > QUEUES_MAX:
            raise RemotingUnreachable(f"the source has {len(queues):,} queues; {QUEUES_MAX:,} can be copied")
        self.queues, self.groups = queues, sorted(groups)

    async def _ask_name_servers(self) -> tuple[RemotingLink, dict[str, object]]:
        failure: RemotingUnreachable | None = None
        for address in self._name_servers:
            link = self._link_to(address)
            try:
                return link, await link.read_table(CLUSTER_INFO)
            except RemotingUnreachable as error:
                failure = error
        assert failure is not None
        raise failure

    async def _read_queues(self, broker: str, system: set[str]) -> list[Queue]:
        link = self._link_of(broker)
        own = texts_of((await link.read_table(BROKER_SYSTEM_TOPICS)).get("topicList"))
        hidden = frozenset(system.union(own))
        return [
            Queue(broker, topic.name, queue_id)
            for topic in topics_of(broker, await link.read_table(ALL_TOPICS))
            if topic.name.startswith(RETRY_PREFIX) or is_users_topic(topic.name, hidden, self.brokers)
            for queue_id in range(min(max(0, topic.read_queues), QUEUES_MAX + 1))
        ]

    async def pull(self, queue: Queue, offset: int, *, wait_s: float = 0.0, most: int = BATCH) -> Pulled:
        """Pull messages, as `pull_messages` does."""
        return await pull_messages(self._link_of(queue.broker), READER_GROUP, queue, offset, most=most, wait_s=wait_s)

    async def read_committed(self) -> dict[str, dict[Queue, int]]:
        """Return the committed offsets of each group. A broker that does not answer is left out."""
        found: dict[str, dict[Queue, int]] = {}
        for broker in self.brokers:
            try:
                answer = await self._link_of(broker).request(_ALL_OFFSETS, {})
            except RemotingUnreachable:
                continue
            for key, offsets in read_offsets(check_answer(answer, _ALL_OFFSETS, broker).body).items():
                topic, _, group = key.partition("@")
                for queue_id, offset in offsets.items():
                    found.setdefault(group, {})[Queue(broker, topic, queue_id)] = offset
        return found

    async def has_members(self, group: str) -> bool:
        """Return whether a member of the group is connected to any broker, or a broker does not say."""
        for broker in self.brokers:
            try:
                await self._link_of(broker).read_table(_MEMBERS, consumerGroup=group)
            except RemotingUnreachable:
                return True
            except RemotingRefused as refusal:
                if refusal.code == _NOT_ONLINE:
                    continue
            return True
        return False

    def _link_of(self, broker: str) -> RemotingLink:
        return self._link_to(self._masters[broker])

    def _link_to(self, address: str) -> RemotingLink:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = RemotingLink(address, self._access, answer_max=ANSWER_BYTES_MAX)
            self._stack.push_async_callback(link.close)
        return link


def read_offsets(body: bytes) -> dict[str, dict[int, int]]:
    """Return the table of a broker with all committed offsets, by `topic@group` and queue. RemotingUnreachable if it is
    none. Its keys are numbers without quotes, and it may be large: a reader of JSON does it once they have quotes."""
    try:
        table = json.loads(_NUMBER_KEY.sub(rb'\1"\2":', body)).get("offsetTable")
        return {
            str(key): {int(queue_id): int(offset) for queue_id, offset in offsets.items()}
            for key, offsets in (table or {}).items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise RemotingUnreachable(f"a broker lists offsets in another form: {error}") from None


def group_of_retries(topic: str, groups: Sequence[str]) -> str | None:
    """Return the group whose retries are in that topic of the source; None if it is of no known group.

    Groups that pop have one for each topic, `%RETRY%group_topic` or `%RETRY%group+topic`.
    """
    if not topic.startswith(RETRY_PREFIX):
        return None
    rest = topic.removeprefix(RETRY_PREFIX)
    fitting = [each for each in groups if rest == each or rest.startswith((f"{each}_", f"{each}+"))]
    return max(fitting, key=len, default=None)


def find_retried_topic(topic: str, group: str) -> str:
    """Return the topic whose retries are in that topic of the group, empty if it has those of all topics."""
    return topic.removeprefix(f"{RETRY_PREFIX}{group}")[1:]
