"""The subscriptions of clients of lite groups to lite topics, and which of these may have messages for them
(`consuming.md, Lite topics`).

Ready       A lite topic is ready for a group from when it may have messages until a client of the group has polled it.
            So a poll checks what is ready and its client's, never all that the client subscribes to.
Wake        One waiting client that subscribes to it is woken: the one woken longest ago. If none waits, the next poll
            finds it.
Exclusive   The client that adds a lite topic last has it; it is taken from the earlier one. A client that sends its
            whole list takes nothing that another one has.
Wildcard    Each client of the group subscribes to all lite topics of its topic, from its first call on.

Lite topics are identified by the topics of their queues (`names.lite_queue_topic`); times are seconds of a monotonic
clock.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import LITE_QUOTA_SLACK, LITE_SUBSCRIPTIONS_MAX
from ternmq_common.names import lite_parent
from ternmq_common.shard.model import LiteAction

if TYPE_CHECKING:
    from ternmq_common.catalog.lite_group import LiteGroup

    IsWaiting = Callable[[str, str, str], bool]
    """Whether a poll of that group, topic and client waits."""


class LiteClient:
    """One client of a lite group: its subscriptions, and when it last sent them."""

    __slots__ = ("client_id", "synced_s", "topics")

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.topics: dict[str, None] = {}
        self.synced_s = 0.0


class LiteClientKey(NamedTuple):
    """The key of a client of a lite group, and the LITE topic that it reads."""

    group: str
    topic: str
    client_id: str


class SubscriptionChanges(NamedTuple):
    """The changes of one call: lite topics that the client has now, those that it no longer has, and those that were
    taken from other clients or refused to it.
    """

    added: list[str]
    removed: list[str]
    taken: list[tuple[str, str]]
    """Client id and lite topic."""


class _GroupMembers:
    """The clients of one group.

    Invariant: `subscribers` has each client under each of its topics, and no others; it is empty in a wildcard group.
    """

    def __init__(self, group: str, topic: str, *, is_wildcard: bool) -> None:
        self.group = group
        self.topic = topic
        self.is_wildcard = is_wildcard
        self.clients: dict[str, LiteClient] = {}
        self.subscribers: dict[str, LiteClient | dict[LiteClient, None]] = {}
        self.ready: dict[str, None] = {}
        self._in_turn: deque[str] = deque()  # in a wildcard group all that is ready, in the order in which it became so

    def subscribers_of(self, lite_topic: str) -> Iterable[LiteClient]:
        if self.is_wildcard:
            return self.clients.values()
        found = self.subscribers.get(lite_topic)
        if found is None:
            return ()
        return (found,) if isinstance(found, LiteClient) else found

    def add_subscription(self, client: LiteClient, lite_topic: str) -> None:
        client.topics[lite_topic] = None
        known = self.subscribers.get(lite_topic)
        if known is None:
            self.subscribers[lite_topic] = client
        elif isinstance(known, LiteClient):
            self.subscribers[lite_topic] = {known: None, client: None}
        else:
            known[client] = None

    def remove_subscription(self, client: LiteClient, lite_topic: str) -> None:
        del client.topics[lite_topic]
        known = self.subscribers[lite_topic]
        if not isinstance(known, LiteClient):
            del known[client]
            if len(known) > 1:
                return
            if known:
                [self.subscribers[lite_topic]] = known
                return
        del self.subscribers[lite_topic]
        self.ready.pop(lite_topic, None)

    def mark_ready(self, lite_topic: str) -> None:
        if lite_topic not in self.ready:
            self.ready[lite_topic] = None
            if self.is_wildcard:
                self._in_turn.append(lite_topic)

    def next_waiting(self, lite_topic: str, is_waiting: "IsWaiting") -> LiteClient | None:
        """Return the waiting client to wake; it becomes the last one to be woken."""
        for client in self.subscribers_of(lite_topic):
            if is_waiting(self.group, self.topic, client.client_id):
                found = None if self.is_wildcard else self.subscribers.get(lite_topic)
                if self.is_wildcard:
                    self.clients[client.client_id] = self.clients.pop(client.client_id)
                elif isinstance(found, dict):
                    found[client] = found.pop(client)
                return client
        return None

    def take_ready(self, client: LiteClient) -> Iterator[str]:
        """Yield the client's ready lite topics; each is no longer ready when it is yielded."""
        if self.is_wildcard:
            while self._in_turn:
                lite_topic = self._in_turn.popleft()
                if self.ready.pop(lite_topic, self) is None:
                    yield lite_topic
            return
        few, others = sorted((client.topics, self.ready), key=len)
        for lite_topic in [each for each in few if each in others]:
            if lite_topic in client.topics and self.ready.pop(lite_topic, self) is None:
                client.topics[lite_topic] = client.topics.pop(lite_topic)  # round robin
                yield lite_topic


class LiteSubscriptions:
    """The subscriptions of all lite groups of a broker."""

    def __init__(self, is_waiting: "IsWaiting") -> None:
        self._is_waiting = is_waiting
        self._groups: dict[str, _GroupMembers] = {}
        self._by_topic: dict[str, dict[str, _GroupMembers]] = {}  # LITE topic, group
        self.count = 0
        """How many subscriptions there are: pairs of a client and a lite topic."""

    # --- calls of clients

    def sync_client(
        self, group: str, rules: "LiteGroup", client_id: str, action: LiteAction, topics: "list[str]", now_s: float
    ) -> SubscriptionChanges:
        """Apply a client's call about its subscriptions. LITE_SUBSCRIPTION_QUOTA_EXCEEDED: nothing has changed."""
        members = self._groups.get(group)
        if members is not None and (members.topic, members.is_wildcard) != (rules.bind, rules.wildcard):
            self.forget_group(group)  # it was created again, or changed: its clients send their subscriptions again
            members = None
        if action in (LiteAction.COMPLETE_REMOVE, LiteAction.PARTIAL_REMOVE):
            return self._remove_topics(members, client_id, action, topics, now_s)
        known = None if members is None else members.clients.get(client_id)
        has = () if known is None or action is LiteAction.COMPLETE_ADD else known.topics
        self._check_quota(rules, len({*has, *topics}), len(known.topics) if known else 0)
        if members is None:
            members = self._groups[group] = _GroupMembers(group, rules.bind, is_wildcard=rules.wildcard)
            self._by_topic.setdefault(rules.bind, {})[group] = members
        if known is None:
            known = members.clients[client_id] = LiteClient(client_id)
            self.count += rules.wildcard
        known.synced_s = now_s
        if rules.wildcard:
            return SubscriptionChanges([], [], [])
        return self._add_topics(
            members, known, topics, whole=action is LiteAction.COMPLETE_ADD, exclusive=rules.exclusive
        )

    def _check_quota(self, rules: "LiteGroup", count: int, before: int) -> None:
        if count > rules.quota + LITE_QUOTA_SLACK:
            raise MessagingError(
                ErrorCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                f"a client of this group may subscribe {rules.quota} lite topics of {rules.bind!r}, not {count}",
            )
        if count > before and self.count + count - before > LITE_SUBSCRIPTIONS_MAX:
            raise MessagingError(
                ErrorCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                f"this broker has {self.count} subscriptions of lite topics; {LITE_SUBSCRIPTIONS_MAX} are allowed",
            )

    def _add_topics(
        self, members: _GroupMembers, client: LiteClient, topics: "list[str]", *, whole: bool, exclusive: bool
    ) -> SubscriptionChanges:
        wanted = dict.fromkeys(topics)
        removed = [each for each in client.topics if each not in wanted] if whole else []
        for each in removed:
            members.remove_subscription(client, each)
        added = [each for each in wanted if each not in client.topics]
        taken: list[tuple[str, str]] = []
        if exclusive and whole:
            # It repeats its list, and may not know yet that another client has taken some of it.
            taken = [(client.client_id, each) for each in added if each in members.subscribers]
            added = [each for each in added if each not in members.subscribers]
        for each in added:
            others = list(members.subscribers_of(each)) if exclusive else []
            members.add_subscription(client, each)  # first: a lite topic without subscribers would lose its ready mark
            for other in others:
                members.remove_subscription(other, each)
                taken.append((other.client_id, each))
            self.count -= len(others)
        self.count += len(added) - len(removed)
        return SubscriptionChanges(added, removed, taken)

    def _remove_topics(
        self, members: _GroupMembers | None, client_id: str, action: LiteAction, topics: "list[str]", now_s: float
    ) -> SubscriptionChanges:
        client = None if members is None else members.clients.get(client_id)
        if members is None or client is None:
            return SubscriptionChanges([], [], [])
        if action is LiteAction.COMPLETE_REMOVE:
            return SubscriptionChanges([], self._remove_client(members, client), [])
        client.synced_s = now_s
        removed = [each for each in dict.fromkeys(topics) if each in client.topics]
        for each in removed:
            members.remove_subscription(client, each)
        self.count -= len(removed)
        return SubscriptionChanges([], removed, [])

    def _remove_client(self, members: _GroupMembers, client: LiteClient) -> list[str]:
        removed = list(client.topics)
        for each in removed:
            members.remove_subscription(client, each)
        self.count -= len(removed) + members.is_wildcard
        del members.clients[client.client_id]
        if not members.clients:
            self.forget_group(members.group)
        return removed

    def expire_clients(self, before_s: float) -> int:
        """Drop the clients that have called nothing since then; return how many."""
        silent = [
            (members, client)
            for members in self._groups.values()
            for client in members.clients.values()
            if client.synced_s < before_s
        ]
        for members, client in silent:
            self._remove_client(members, client)
        return len(silent)

    def forget_group(self, group: str) -> None:
        """Drop the group's clients."""
        members = self._groups.pop(group, None)
        if members is not None:
            self.count -= sum(len(client.topics) + members.is_wildcard for client in members.clients.values())
            groups = self._by_topic[members.topic]
            del groups[group]
            if not groups:
                del self._by_topic[members.topic]

    def drop_topic(self, lite_topic: str) -> list[LiteClientKey]:
        """Drop the subscriptions of a lite topic that is gone; return whose they were."""
        dropped: list[LiteClientKey] = []
        for members in self._by_topic.get(lite_parent(lite_topic), {}).values():
            members.ready.pop(lite_topic, None)
            for client in list(members.subscribers_of(lite_topic)) if not members.is_wildcard else ():
                members.remove_subscription(client, lite_topic)
                dropped.append(LiteClientKey(members.group, members.topic, client.client_id))
        self.count -= len(dropped)
        return dropped

    # --- what is ready

    def groups_of(self, lite_topic: str) -> list[str]:
        """Return the groups that have a subscriber of the lite topic."""
        found = self._by_topic.get(lite_parent(lite_topic), {})
        return [group for group, members in found.items() if members.is_wildcard or lite_topic in members.subscribers]

    def mark_ready(self, group: str, lite_topic: str) -> LiteClientKey | None:
        """Mark the lite topic ready for the group; return the client to wake, None if none waits."""
        members = self._groups.get(group)
        if members is None or not (members.is_wildcard or lite_topic in members.subscribers):
            return None
        members.mark_ready(lite_topic)
        client = members.next_waiting(lite_topic, self._is_waiting)
        return None if client is None else LiteClientKey(group, members.topic, client.client_id)

    def take_ready(self, group: str, client_id: str) -> Iterator[str]:
        """Yield the client's ready lite topics; each is no longer ready when it is yielded. None for an unknown
        client.
        """
        members = self._groups.get(group)
        client = None if members is None else members.clients.get(client_id)
        return iter(()) if members is None or client is None else members.take_ready(client)

    def clients_to_wake(self, limit: int) -> list[LiteClientKey]:
        """Return clients to wake for lite topics that have been ready for a while: the client that was woken for them
        did not come.
        """
        found: list[LiteClientKey] = []
        for members in self._groups.values():
            for lite_topic in list(islice(members.ready, limit)):
                client = members.next_waiting(lite_topic, self._is_waiting)
                if client is not None:
                    found.append(LiteClientKey(members.group, members.topic, client.client_id))
        return found

    def subscribed_topics(self, topic: str | None = None) -> Iterator[tuple[str, str]]:
        """Yield each group with each lite topic that a client of it subscribes to; nothing for a wildcard group."""
        for members in self._groups.values():
            if topic in (None, members.topic):
                yield from ((members.group, lite_topic) for lite_topic in members.subscribers)

    def topics_of_group(self, group: str) -> list[str] | None:
        """Return the lite topics to which a client of the group subscribes; None for a wildcard group, which has
        all.
        """
        members = self._groups.get(group)
        if members is None:
            return []
        return None if members.is_wildcard and members.clients else list(members.subscribers)

    def group_names(self) -> list[str]:
        """Return the groups that have clients here."""
        return list(self._groups)

    def wildcard_groups(self) -> list[tuple[str, str]]:
        """Return the wildcard groups, each with its topic."""
        return [(members.group, members.topic) for members in self._groups.values() if members.is_wildcard]

    def clients_of(self, group: str, lite_topic: str = "") -> list[str]:
        """Return the ids of the group's clients, or of those that subscribe to that lite topic."""
        members = self._groups.get(group)
        if members is None:
            return []
        clients = members.subscribers_of(lite_topic) if lite_topic else members.clients.values()
        return sorted(each.client_id for each in clients)
