"""The members of consumer and producer groups whose clients report them in heartbeats, over connections of their own.

A client of RocketMQ 4.x may be in several groups at once. It is a member from its first heartbeat that names the group
until it leaves, its connection is closed, or it is silent for `expiry_s`. A group's subscription is that of the last
heartbeat of any member says.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ternmq_common.filters.message_filter import FilterText
from ternmq_proxy.processors.client_limits import refuse_excess

if TYPE_CHECKING:
    from ternmq_proxy.processors.client_settings import UserAgent

GROUPS_OF_CLIENT_MAX = 256
TOPICS_OF_GROUP_MAX = 1024
"""The most names in a heartbeat; its reader refuses more."""
MEMBERS_MAX = 200_000


class MemberChannel(Protocol):
    """The connection of a client."""

    def push_members_changed(self, group: str) -> None:
        """Tell the client that the members of its group changed."""


class GroupSubscription(NamedTuple):
    """A topic that a group subscribes to. `version` is the client's time of it in milliseconds; the newest counts."""

    topic: str
    filter: FilterText
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerReport:
    """A heartbeat's report of one consumer group; the names are those of the protocol. Without `subscriptions` the
    group keeps those that it has."""

    group: str
    consume_type: str
    message_model: str
    consume_from: str
    subscriptions: tuple[GroupSubscription, ...] | None

    @property
    def is_broadcasting(self) -> bool:
        """Whether each member gets all messages."""
        return self.message_model == "BROADCASTING"


@dataclass(slots=True)
class GroupMember:
    """A client that is a member of some groups, on one connection. `seen_s` is when its last heartbeat came."""

    client_id: str
    channel: MemberChannel
    address: str
    agent: "UserAgent"
    user: str = ""
    seen_s: float = 0.0
    consumers: dict[str, ConsumerReport] = field(default_factory=dict)
    producers: frozenset[str] = frozenset()


class MemberReport(NamedTuple):
    """The last heartbeat of a member, and what its groups subscribed to after it."""

    member: GroupMember
    consumers: dict[str, ConsumerReport]
    producers: frozenset[str]
    subscriptions: tuple[dict[str, GroupSubscription], ...]


class _Group:
    __slots__ = ("members", "subscriptions")

    def __init__(self) -> None:
        self.members: dict[MemberChannel, GroupMember] = {}
        self.subscriptions: dict[str, GroupSubscription] = {}


class GroupMembers:
    """The members whose connections this process has. `now` is a monotonic clock in seconds.

    `on_change` is called with a group whose members or topics changed, after the change; `on_left` with a client id and
    a group when it is a member of that group no more.
    """

    def __init__(
        self,
        now: Callable[[], float],
        *,
        expiry_s: float,
        on_change: Callable[[str], None],
        on_left: Callable[[str, str], None],
    ) -> None:
        self._now = now
        self._expiry_s = expiry_s
        self._on_change = on_change
        self._on_left = on_left
        self._members: dict[MemberChannel, GroupMember] = {}
        self._groups: dict[str, _Group] = {}
        self._producers: dict[str, dict[MemberChannel, GroupMember]] = {}

    def take_heartbeat(
        self,
        member: GroupMember,
        consumers: Mapping[str, ConsumerReport],
        producers: Iterable[str],
    ) -> bool:
        """Note what a client reports; `member` is it, as its connection knows it. Return whether subscriptions or
        members changed. Raises TOO_MANY_REQUESTS."""
        channel = member.channel
        known = self._members.get(channel)
        producing = frozenset(producers)
        if known is None:
            if len(self._members) >= MEMBERS_MAX:
                refuse_excess(f"{MEMBERS_MAX} clients are members of groups already, the most allowed")
            known = self._members[channel] = member
        known.seen_s = self._now()
        known.client_id = member.client_id
        for group in known.producers - producing:
            self._drop_producer(group, channel)
        for group in producing:
            self._producers.setdefault(group, {})[channel] = known
        known.producers = producing
        changed = [group for group in known.consumers if group not in consumers]
        for group in changed:
            self._drop_consumer(group, known)
        changed += [group for group, report in consumers.items() if self._take_report(known, report)]
        for group in changed:
            self._on_change(group)
        return bool(changed)

    def report_of(self, channel: MemberChannel) -> MemberReport | None:
        """Return the last heartbeat of the client on that connection, None if it is no member."""
        member = self._members.get(channel)
        if member is None:
            return None
        subscriptions = tuple(self._groups[group].subscriptions for group in member.consumers)
        return MemberReport(member, dict(member.consumers), member.producers, subscriptions)

    def renew_member(self, report: MemberReport) -> bool:
        """Note that a member is alive whose heartbeat says the same again; return False, with nothing noted, if that
        would change anything now."""
        member, consumers, producers, subscriptions = report
        if self._members.get(member.channel) is not member or member.producers != producers:
            return False
        if member.consumers != consumers:
            return False
        for group, known in zip(consumers, subscriptions, strict=True):
            if self._groups[group].subscriptions is not known:
                return False
        member.seen_s = self._now()
        return True

    def _take_report(self, member: GroupMember, report: ConsumerReport) -> bool:
        group = self._groups.get(report.group)
        if group is None:
            group = self._groups[report.group] = _Group()
        is_new = member.channel not in group.members
        group.members[member.channel] = member
        member.consumers[report.group] = report
        return self._take_subscriptions(group, report.subscriptions) or is_new

    def _take_subscriptions(self, group: _Group, subscriptions: "tuple[GroupSubscription, ...] | None") -> bool:
        """Note what the group subscribes to; return whether topics came or went."""
        if subscriptions is None or not _differ(group.subscriptions, subscriptions):
            return False
        known, group.subscriptions = group.subscriptions, {}
        for each in subscriptions:
            before = known.get(each.topic)
            group.subscriptions[each.topic] = each if before is None or each.version > before.version else before
        return known.keys() != group.subscriptions.keys()

    def remove_consumer(self, channel: MemberChannel, group: str) -> None:
        """Note that the client on that connection left the consumer group."""
        member = self._members.get(channel)
        if member is not None and group in member.consumers:
            self._drop_consumer(group, member)
            self._on_change(group)

    def remove_producer(self, channel: MemberChannel, group: str) -> None:
        """Note that the client on that connection left the producer group."""
        member = self._members.get(channel)
        if member is not None and group in member.producers:
            member.producers -= {group}
            self._drop_producer(group, channel)

    def remove_channel(self, channel: MemberChannel) -> None:
        """Note that a connection was closed."""
        member = self._members.pop(channel, None)
        if member is None:
            return
        for group in member.producers:
            self._drop_producer(group, channel)
        left = list(member.consumers)
        for group in left:
            self._drop_consumer(group, member)
        for group in left:
            self._on_change(group)

    def expire_members(self) -> list[GroupMember]:
        """Remove the clients that are silent for too long, and return them."""
        now = self._now()
        silent = [member for member in self._members.values() if now - member.seen_s > self._expiry_s]
        for member in silent:
            self.remove_channel(member.channel)
        return silent

    def _drop_consumer(self, name: str, member: GroupMember) -> None:
        del member.consumers[name]
        group = self._groups[name]
        del group.members[member.channel]
        if not group.members:
            del self._groups[name]
        if not any(each.client_id == member.client_id for each in group.members.values()):
            self._on_left(member.client_id, name)

    def _drop_producer(self, name: str, channel: MemberChannel) -> None:
        members = self._producers[name]
        del members[channel]
        if not members:
            del self._producers[name]

    # --- reading

    def find_member(self, channel: MemberChannel) -> GroupMember | None:
        """Return the client on that connection, None before its first heartbeat."""
        return self._members.get(channel)

    def is_member(self, channel: MemberChannel, group: str) -> bool:
        """Return whether the client on that connection is a member of the consumer group."""
        member = self._members.get(channel)
        return member is not None and group in member.consumers

    def list_members(self) -> list[GroupMember]:
        """Return all clients."""
        return list(self._members.values())

    def consumers_of(self, group: str) -> list[GroupMember]:
        """Return the members of a consumer group that are connected here."""
        known = self._groups.get(group)
        return [] if known is None else list(known.members.values())

    def producers_of(self, group: str) -> list[GroupMember]:
        """Return the members of a producer group that are connected here."""
        return list(self._producers.get(group, {}).values())

    def producer_groups(self) -> list[str]:
        """Return the names of all producer groups."""
        return sorted(self._producers)

    def consumer_groups(self) -> list[str]:
        """Return the names of all consumer groups with members."""
        return sorted(self._groups)

    def subscriptions_of(self, group: str) -> dict[str, GroupSubscription] | None:
        """Return what the group subscribes to, by topic; None if it has no member here."""
        known = self._groups.get(group)
        return None if known is None else known.subscriptions

    def push_changed(self, group: str) -> None:
        """Tell the members that are connected here that members of the group changed; not to broadcasting ones."""
        for member in self.consumers_of(group):
            if not member.consumers[group].is_broadcasting:
                member.channel.push_members_changed(group)


def _differ(known: Mapping[str, GroupSubscription], reported: Iterable[GroupSubscription]) -> bool:
    """Return whether a report changes what a group subscribes to: other topics, or a newer version."""
    topics = {each.topic: each.version for each in reported}
    return known.keys() != topics.keys() or any(known[topic].version < topics[topic] for topic in topics)
