"""The memberships of clients at this front, as the rest of the proxy and other proxies see them.

Clients     each consumer group of a client is a client of the proxy (`ClientRegistry`) that pulls, so that it is
            listed, and brokers know it as a member. A client's first group has the client's own id, the others have
            `client id#group`.
Changes     a change is told to the members here at once, and to other proxies by a question to them.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from ternmq_proxy.processors.client_settings import ClientSettings, NamedTopic, TopicSubscription
from ternmq_proxy.processors.client_type import ClientType
from ternmq_proxy.processors.group_members import GroupMember, GroupMembers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ternmq_proxy.fronts.remoting.call import ClientConnection
    from ternmq_proxy.processors.group_members import ConsumerReport
    from ternmq_proxy.services import Services

_log = logging.getLogger(__name__)
EXPIRY_S = 120.0
_LOOK_EVERY_S = 10.0
MEMBERS_CHANGED = "remoting-members-changed"
"""The question by which a proxy tells others that members of a group changed."""


class Memberships:
    """Takes heartbeats, and forgets clients that leave or disappear."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self.members = GroupMembers(
            time.monotonic, expiry_s=EXPIRY_S, on_change=self._note_change, on_left=self._release_member
        )
        self._keys: dict[ClientConnection, dict[str, str]] = {}  # group or "" for producers, key in the registry
        self._changed: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._telling: asyncio.Task[None] | None = None
        services.process.answers[MEMBERS_CHANGED] = self._answer_changed

    def start(self) -> None:
        """Begin to look for clients that are silent."""
        self._add_task(self._expire_forever(), "remoting clients")

    async def stop(self) -> None:
        """Stop telling and looking."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _add_task(self, coroutine: "object", name: str) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.create_task(coroutine, name=name)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- clients

    def take_heartbeat(
        self,
        client: "ClientConnection",
        member: GroupMember,
        consumers: "Mapping[str, ConsumerReport]",
        producers: "Iterable[str]",
    ) -> bool:
        """Take what a client reports; return whether members or topics of a group changed."""
        producing = tuple(producers)
        keys = self._keys.setdefault(client, {})
        for group in [group for group in keys if group and group not in consumers]:
            self._forget_key(keys, group)
        for group, report in consumers.items():
            self._register_consumer(keys, member, report)
            del group
        if not consumers:
            self._register_producer(keys, member, producing)
        elif "" in keys:
            self._forget_key(keys, "")
        return self.members.take_heartbeat(member, consumers, producing)

    def _register_consumer(self, keys: dict[str, str], member: GroupMember, report: "ConsumerReport") -> None:
        clients = self._services.clients
        key = keys.get(report.group)
        if key is None:
            is_first = not any(keys)
            key = keys[report.group] = member.client_id if is_first else f"{member.client_id}#{report.group}"
        elif report.subscriptions is None:
            clients.note_call(key, report.group, user=member.user)
            return
        settings = ClientSettings(
            client_type=ClientType.PULL_CONSUMER,
            consumes=True,
            group=report.group,
            subscriptions=tuple(TopicSubscription(each.topic, each.filter) for each in report.subscriptions or ()),
            user_agent=member.agent,
            member_id=member.client_id,
        )
        known = clients.find_client(key)
        if known is not None and known.settings == settings:
            clients.note_call(key, report.group, user=member.user)
        else:
            clients.take_settings(key, settings, user=member.user, joined=True).address = member.address

    def _register_producer(self, keys: dict[str, str], member: GroupMember, producers: tuple[str, ...]) -> None:
        clients = self._services.clients
        key = keys.setdefault("", member.client_id)
        topics = tuple(NamedTopic(producer_topic(group)) for group in producers)
        settings = ClientSettings(client_type=ClientType.PRODUCER, published_topics=topics, user_agent=member.agent)
        known = clients.find_client(key)
        if known is not None and known.settings == settings:
            clients.note_call(key, user=member.user)
        else:
            clients.take_settings(key, settings, user=member.user).address = member.address

    def _forget_key(self, keys: dict[str, str], group: str) -> None:
        self._services.clients.forget_client(keys.pop(group))

    def leave_groups(self, client: "ClientConnection", consumer_group: str, producer_group: str) -> None:
        """Note that a client leaves the groups that are not empty."""
        if consumer_group:
            keys = self._keys.get(client, {})
            if consumer_group in keys:
                self._forget_key(keys, consumer_group)
            self.members.remove_consumer(client, consumer_group)
        if producer_group:
            self.members.remove_producer(client, producer_group)

    def forget_channel(self, client: "ClientConnection") -> None:
        """Forget a client whose connection was closed."""
        keys = self._keys.pop(client, {})
        for group in list(keys):
            self._forget_key(keys, group)
        self.members.remove_channel(client)

    async def _expire_forever(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            for member in self.members.expire_members():
                _log.info("remoting client %s at %s disappeared without closing", member.client_id, member.address)

    def _release_member(self, client_id: str, group: str) -> None:
        self._add_task(self._release_queues(client_id, group), f"queues of {client_id}")

    async def _release_queues(self, client_id: str, group: str) -> None:
        try:
            await self._services.messages.consuming.leave(group, client_id)
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("the queues of %s in group %s could not be released", client_id, group)

    # --- changes

    def _note_change(self, group: str) -> None:
        self.members.push_changed(group)
        self._changed.add(group)
        if self._telling is None or self._telling.done():
            self._telling = self._add_task(self._tell_proxies(), "changes of members")

    async def _tell_proxies(self) -> None:
        """Tell the other proxies which groups changed."""
        await asyncio.sleep(0)  # so that brokers get the members before
        while self._changed:
            group = self._changed.pop()
            try:
                await self._services.messages.ask_proxies(MEMBERS_CHANGED, group)
            except Exception as error:  # noqa: BLE001 - members rebalance by themselves within 20 s
                _log.warning("cannot report to other proxies that members of group %s changed: %s", group, error)

    async def _answer_changed(self, group: str) -> bytes:
        self.members.push_changed(group)
        return b"1"

    async def find_members(self, group: str) -> list[str]:
        """Return the sorted ids of the group's members at all proxies."""
        here = sorted({member.client_id for member in self.members.consumers_of(group)})
        return sorted(await self._services.messages.pulling_members(group, "", here))


def producer_topic(group: str) -> str:
    """Return the name by which a producer of the group is listed as a publisher; no topic has it."""
    return f"group {group}"
