"""The memberships of clients at this front, as the rest of the proxy and other proxies see them.

Clients     each consumer group of a client is a client of the proxy (`ClientRegistry`) that pulls, so that it is
            listed, and brokers know it as a member; or one that receives, if the group's settings say so. A client's
            first group has the client's own id, the others have `client id#group`.
Changes     a change is pushed to the members here at once, and to other proxies by a question to them. Members hear of
            further changes of their group `PUSH_PAUSE_S` later, of all of them together.
"""

import asyncio
import logging
import time
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import json

from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.filters.message_filter import FilterText
from ternmq_common.printable import cut_text
from ternmq_common.shard.model import MEMBERS_CHANGED
from ternmq_proxy.fronts.remoting.known_heartbeat import KnownHeartbeat, ListedClient
from ternmq_proxy.peers.asking import ask_others
from ternmq_proxy.processors.client_settings import ClientSettings, NamedTopic, TopicSubscription
from ternmq_proxy.processors.client_type import ClientType
from ternmq_proxy.processors.group_members import GroupMember, GroupMembers, GroupSubscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ternmq_common.shard.model import ConsumerGroup
    from ternmq_proxy.fronts.remoting.call import ClientConnection
    from ternmq_proxy.processors.group_members import ConsumerReport
    from ternmq_proxy.services import Services
    from ternmq_rpc.remoting.commands import Command

_log = logging.getLogger(__name__)
EXPIRY_S = 120.0
_LOOK_EVERY_S = 10.0
PUSH_PAUSE_S = 0.1
_SUBSCRIPTIONS, _MEMBERS = "remoting-subscriptions", "remoting-members"
_MEMBERS_DECODER = json.Decoder(list[str])
_GROUPS_MAX = 10_000
_CHARACTERS_MAX = 200_000
# A group that no proxy knows is not requested again within that time.
_REQUEST_AGAIN_S = 1.0


class Memberships:
    """Takes heartbeats, and forgets clients that leave or disappear."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self.members = GroupMembers(
            time.monotonic, expiry_s=EXPIRY_S, on_change=self._note_change, on_left=self._release_member
        )
        self._keys: dict[ClientConnection, dict[str, str]] = {}  # group or "" for producers, key in the registry
        self._changed: set[str] = set()
        self._pauses: dict[str, bool] = {}  # groups whose members were just notified, and whether there is more
        self._tasks, self._notices = BackgroundTasks(), BackgroundTasks()
        self._expiry = BackgroundLoop(
            self._expire_members,
            name="remoting clients",
            what="silent remoting clients are not released",
            every_s=_LOOK_EVERY_S,
        )
        self._moving: tuple[ClientConnection, frozenset[str]] | None = None
        self._elsewhere: dict[str, dict[str, GroupSubscription]] = {}  # what groups subscribe to that are elsewhere
        self._requested_s: dict[str, float] = {}
        self._begun: dict[tuple[str, str], int] = {}  # the version in which the group was created
        self.waiting_pops: Counter[tuple[str, str, int]] = Counter()  # by group, topic and queue
        services.process.front_answers[MEMBERS_CHANGED] = self._answer_changed
        services.process.front_answers[_SUBSCRIPTIONS] = self._answer_subscriptions
        services.process.front_answers[_MEMBERS] = self._answer_members

    def start(self) -> None:
        """Begin to look for clients that are silent."""
        self._expiry.start()

    async def stop(self) -> None:
        """Stop the notices and the search for silent clients."""
        for each in (self._expiry, self._tasks, self._notices):
            await each.stop()

    # --- clients

    def take_heartbeat(
        self,
        client: "ClientConnection",
        member: GroupMember,
        consumers: "Mapping[str, ConsumerReport]",
        producers: "Iterable[str]",
        moved: frozenset[str] = frozenset(),
    ) -> bool:
        """Take what a client reports; return whether members or topics of a group changed. `moved` are the groups of
        which the client was a member before, by another proxy: their other members need not rebalance."""
        producing = tuple(producers)
        keys = self._keys.setdefault(client, {})
        for group in [group for group in keys if group and group not in consumers]:
            self._forget_key(keys, group)
        if consumers and "" in keys:  # before its first group gets the same id
            self._forget_key(keys, "")
        for report in consumers.values():
            self._register_consumer(keys, member, report)
        if not consumers:
            self._register_producer(keys, member, producing)
        self._moving = client, moved
        try:
            return self.members.take_heartbeat(member, consumers, producing)
        finally:
            self._moving = None

    def remember_heartbeat(self, client: "ClientConnection", command: "Command", user: str, version: int) -> None:
        """Remember the client's last heartbeat, which was accepted at that version of the registry."""
        report = self.members.report_of(client)
        found = [self._services.clients.find_client(key) for key in self._keys.get(client, {}).values()]
        listed = [ListedClient(each) for each in found if each is not None]
        if report is not None and len(listed) == len(found):  # else it has left since
            client.known_heartbeat = KnownHeartbeat(command, user, version, report, listed)

    def renew_client(self, client: "ClientConnection", command: "Command", user: str) -> bool:
        """Note that the client is alive if it repeats its last heartbeat, and that would change nothing; else return
        False, with nothing noted."""
        known, services = client.known_heartbeat, self._services
        return (
            known is not None
            and known.is_repeated_by(command, user, services.catalog.version)
            and known.renew_client(self.members, services.clients)
        )

    async def find_moved(self, client: "ClientConnection", client_id: str, groups: "Iterable[str]") -> frozenset[str]:
        """Return the groups, of these, that the client joins here, and is a member of already elsewhere."""
        new = [group for group in groups if not self.members.is_member(client, group)]
        return frozenset([group for group in new if client_id in await self.find_members(group)])

    def key_of(self, client: "ClientConnection", group: str) -> str | None:
        """Return the id by which the proxy knows the client as a member of the consumer group; None if it is none."""
        return self._keys.get(client, {}).get(group)

    def is_pulling(self, client: "ClientConnection", group: str) -> bool:
        """Return whether the client is a member of the consumer group, and pulls."""
        key = self.key_of(client, group)
        known = None if key is None else self._services.clients.find_client(key)
        return known is not None and known.is_pulling

    def adopt_way(self, client: "ClientConnection", group: str) -> None:
        """Have a member pop or pull from now on, as its group's settings say."""
        member = self.members.find_member(client)
        if member is not None and group in member.consumers:
            self._register_consumer(self._keys[client], member, member.consumers[group])

    def has_begun(self, group: "ConsumerGroup", topic: str) -> bool:
        """Return whether the group was set here to begin at the topic's first message."""
        return self._begun.get((group.name, topic)) == group.created_version

    def note_begun(self, group: "ConsumerGroup", topic: str) -> None:
        """Note that the group was set so."""
        if len(self._begun) >= _GROUPS_MAX:
            self._begun.clear()
        self._begun[group.name, topic] = group.created_version

    def _pops(self, group: str) -> bool:
        return self._services.catalog.group_or_default(group).remoting_pop

    def _register_consumer(self, keys: dict[str, str], member: GroupMember, report: "ConsumerReport") -> None:
        clients, pops = self._services.clients, self._pops(report.group)
        key = keys.get(report.group)
        if key is None:
            is_first = not any(keys)
            key = keys[report.group] = member.client_id if is_first else f"{member.client_id}#{report.group}"
        known = clients.find_client(key)
        if report.subscriptions is None and known is not None and known.is_pulling is not pops:
            clients.note_call(key, report.group, user=member.user)
            return
        subscriptions = report.subscriptions
        if subscriptions is None:
            subscriptions = tuple((self.members.subscriptions_of(report.group) or {}).values())
        settings = ClientSettings(
            client_type=ClientType.PUSH_CONSUMER if pops else ClientType.PULL_CONSUMER,
            consumes=True,
            group=report.group,
            subscriptions=tuple(TopicSubscription(each.topic, each.filter) for each in subscriptions),
            user_agent=member.agent,
            member_id=member.client_id,
        )
        if known is not None and known.settings == settings:
            clients.note_call(key, report.group, user=member.user)
        else:
            known = clients.take_settings(key, settings, user=member.user, joined=True)
            known.address, known.popping = member.address, ""

    def _register_producer(self, keys: dict[str, str], member: GroupMember, producers: tuple[str, ...]) -> None:
        clients = self._services.clients
        key = keys.setdefault("", member.client_id)
        topics = tuple(NamedTopic(producer_topic(group)) for group in producers)
        settings = ClientSettings(
            client_type=ClientType.PRODUCER,
            published_topics=topics,
            user_agent=member.agent,
            member_id=member.client_id,
        )
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

    def _expire_members(self) -> None:
        for member in self.members.expire_members():
            _log.info(
                "remoting client %s at %s disappeared without closing", cut_text(member.client_id), member.address
            )

    def _release_member(self, client_id: str, group: str) -> None:
        self._tasks.start(self._release_queues(client_id, group), name=f"queues of {client_id}")

    async def _release_queues(self, client_id: str, group: str) -> None:
        try:
            await self._services.messages.consuming.leave(group, client_id)
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("cannot release the queues of %s in group %s", cut_text(client_id), group)

    # --- changes

    def announce_change(self, group: str) -> None:
        """Have all members of the group look at their queues again."""
        self._note_change(group)

    def _note_change(self, group: str) -> None:
        if self._moving is not None and group in self._moving[1]:
            self._moving[0].push_members_changed(group)
            return
        self._push_changed(group)
        self._changed.add(group)
        if not self._notices:
            self._notices.start(self._notify_proxies(), name="changes of members")

    def _push_changed(self, group: str) -> None:
        """Notify the group's members here that members changed, now or when the pause ends."""
        if group in self._pauses:
            self._pauses[group] = True
            return
        self.members.push_changed(group)
        self._pauses[group] = False
        asyncio.get_running_loop().call_later(PUSH_PAUSE_S, self._end_pause, group)

    def _end_pause(self, group: str) -> None:
        if self._pauses.pop(group):
            self._push_changed(group)

    async def _notify_proxies(self) -> None:
        """Tell the other proxies which groups changed."""
        await asyncio.sleep(0)  # so that brokers get the members before
        while self._changed:
            group = self._changed.pop()
            try:
                await self._services.messages.ask_proxies(MEMBERS_CHANGED, self._describe_change(group))
            except Exception as error:  # noqa: BLE001 - members rebalance by themselves within 20 s
                _log.warning("cannot report to other proxies that members of group %s changed: %s", group, error)

    def _describe_change(self, group: str) -> str:
        text = f"{group}\n{self._encode_subscriptions(group)}"
        return text if len(text) <= _CHARACTERS_MAX else group

    def _encode_subscriptions(self, group: str) -> str:
        known = self.members.subscriptions_of(group) or {}
        return json.encode([(each.topic, *each.filter, each.version) for each in known.values()]).decode()

    async def _answer_changed(self, argument: str) -> bytes:
        group, _, subscriptions = argument.partition("\n")
        self._note_subscriptions(group, subscriptions)
        self._push_changed(group)
        return b"1"

    async def _answer_subscriptions(self, group: str) -> bytes:
        return self._encode_subscriptions(group).encode()

    def _note_subscriptions(self, group: str, subscriptions: str) -> bool:
        """Note what a group subscribes to whose members are elsewhere; return whether that is known."""
        entries = json.decode(subscriptions, type=list[tuple[str, str, bool, int]]) if subscriptions else []
        if not entries:
            return False
        self._elsewhere.pop(group, None)
        if len(self._elsewhere) >= _GROUPS_MAX:
            del self._elsewhere[next(iter(self._elsewhere))]
        self._elsewhere[group] = {
            topic: GroupSubscription(topic, FilterText(expression, is_sql=is_sql), version)
            for topic, expression, is_sql, version in entries
        }
        return True

    async def find_subscriptions(self, group: str) -> "Mapping[str, GroupSubscription] | None":
        """Return what the group subscribes to, by the heartbeats that came here, or else to other proxies."""
        known = self.members.subscriptions_of(group) or self._elsewhere.get(group)
        now_s = time.monotonic()
        if known is not None or now_s - self._requested_s.get(group, 0.0) < _REQUEST_AGAIN_S:
            return known
        if len(self._requested_s) >= _GROUPS_MAX:
            self._requested_s.clear()
        self._requested_s[group] = now_s
        answers, _ = await ask_others(bytes.decode, _SUBSCRIPTIONS, group, self._services)
        for answer in answers:
            if self._note_subscriptions(group, answer):
                break
        return self._elsewhere.get(group)

    async def find_members(self, group: str) -> list[str]:
        """Return the sorted ids of the group's members at all proxies."""
        here = {member.client_id for member in self.members.consumers_of(group)}
        if self._pops(group):  # brokers know those that pull
            elsewhere, _ = await ask_others(_MEMBERS_DECODER.decode, _MEMBERS, group, self._services)
            return sorted(here.union(*elsewhere))
        return sorted(await self._services.messages.pulling_members(group, "", sorted(here)))

    async def _answer_members(self, group: str) -> bytes:
        return json.encode([member.client_id for member in self.members.consumers_of(group)])


def producer_topic(group: str) -> str:
    """Return the name by which a producer of the group is listed as a publisher; no topic has it."""
    return f"group {group}"
