"""The subscriptions of each group's members, and their contradictions (`consuming.md, Subscriptions`).

The filter of each receive is what counts. When two members of a group use different filters for a topic, each skips for
good what the other wanted. That is allowed, so it is logged, at most once a minute for a group and topic, and shown to
operators while it lasts.

News        a new subscription is sent to the brokers, and checked for what it would lose (`subscription_news.py`).
Bounds      a filter keeps what tells it from others, at least `CUT_AT` characters; a client has
            `SETTINGS_TOPICS_MAX` topics, those that it used last; all have `entries_max`: beyond, TOO_MANY_REQUESTS.
"""

import logging
import time
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING

from ternmq_common.limits import SETTINGS_TOPICS_MAX
from ternmq_common.pacing.log_throttle import LogThrottle
from ternmq_common.printable import CUT_AT, list_names
from ternmq_common.shard.model import TopicSubscription
from ternmq_proxy.processors.client_limits import ALL_ENTRIES_MAX, refuse_excess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)
SIDES_MAX = 5


class _TopicMembers:
    """The members of one group that read one topic, with their filters.

    Invariant: `clients_with` counts the values of `filters`, and has no zeros.
    """

    __slots__ = ("clients_with", "filters")

    def __init__(self) -> None:
        self.filters: dict[str, str] = {}
        self.clients_with: Counter[str] = Counter()

    def put_member(self, client_id: str, expression: str) -> None:
        self.remove_member(client_id)
        self.filters[client_id] = expression
        self.clients_with[expression] += 1

    def remove_member(self, client_id: str) -> None:
        before = self.filters.pop(client_id, None)
        if before is not None:
            self.clients_with[before] -= 1
            if not self.clients_with[before]:
                del self.clients_with[before]


_NOBODY = _TopicMembers()


class GroupSubscriptions:
    """The last filter of each member of each group for each topic. `now` is a monotonic clock in seconds.

    Invariant: `_by_group` and `_by_client` have the same entries, `_count` many, and nothing that is empty.
    """

    def __init__(self, now: "Callable[[], float]" = time.monotonic, *, entries_max: int = ALL_ENTRIES_MAX) -> None:
        self._entries_max = entries_max
        self._by_group: dict[str, dict[str, _TopicMembers]] = {}  # group, topic
        self._by_client: dict[str, dict[tuple[str, str], None]] = {}  # client id, (group, topic) from the oldest on
        self._count = 0
        self._news: dict[TopicSubscription, None] = {}
        self._log_throttle = LogThrottle(now)

    def __len__(self) -> int:
        return self._count

    def replace_filters(self, group: str, client_id: str, expressions: dict[str, str]) -> None:
        """Set all that the client subscribes to: topic to filter. Raises TOO_MANY_REQUESTS."""
        for known_group, topic in list(self._by_client.get(client_id, ())):
            if known_group == group and topic not in expressions:
                self._drop_member(group, topic, client_id)
        for topic, expression in expressions.items():
            self.note_filter(group, client_id, topic, expression)

    def note_filter(self, group: str, client_id: str, topic: str, expression: str) -> None:
        """Note that the client receives from the topic with that filter. Raises TOO_MANY_REQUESTS if there are too
        many."""
        kept = kept_text(expression)
        before = self._by_group.get(group, {}).get(topic, _NOBODY).filters.get(client_id)
        if before == kept:
            return
        if before is None:
            self._make_room(client_id)
            self._by_client.setdefault(client_id, {})[group, topic] = None
            self._count += 1
        topics = self._by_group.setdefault(group, {})
        members = topics.get(topic)
        if members is None:
            members = topics[topic] = _TopicMembers()
            self._news[TopicSubscription(group, topic)] = None
        members.put_member(client_id, kept)
        if len(members.clients_with) > 1 and self._log_throttle.is_due(f"{group} {topic}"):
            _warn_contradiction(group, topic, members, client_id)

    def _make_room(self, client_id: str) -> None:
        own = self._by_client.get(client_id, {})
        if len(own) >= SETTINGS_TOPICS_MAX:  # some of its topics may be out of use
            self._drop_member(*next(iter(own)), client_id)
        if self._count >= self._entries_max:
            refuse_excess("more subscriptions are remembered here than is allowed; no others can be taken now")

    def forget_client(self, client_id: str) -> None:
        """Forget a client that is gone."""
        for group, topic in list(self._by_client.get(client_id, ())):
            self._drop_member(group, topic, client_id)

    def _drop_member(self, group: str, topic: str, client_id: str) -> None:
        own, topics = self._by_client[client_id], self._by_group[group]
        del own[group, topic]
        topics[topic].remove_member(client_id)
        self._count -= 1
        if not own:
            del self._by_client[client_id]
        if not topics[topic].filters:
            del topics[topic]
            self._news.pop(TopicSubscription(group, topic), None)
        if not topics:
            del self._by_group[group]

    def member_filters(self, group: str, client_id: str) -> dict[str, str]:
        """Return the filter expressions of one member, by topic."""
        topics = self._by_group.get(group, {})
        own = sorted(topic for known_group, topic in self._by_client.get(client_id, ()) if known_group == group)
        return {topic: topics[topic].filters[client_id] for topic in own}

    def subscribed_topics(self, group: str) -> list[str]:
        """Return the topics that members of the group subscribe to."""
        return sorted(self._by_group.get(group, ()))

    def topic_readers(self, group: str, topic: str) -> list[str]:
        """Return the ids of the group's members that subscribe to the topic."""
        return sorted(self._by_group.get(group, {}).get(topic, _NOBODY).filters)

    def subscribed_groups(self) -> list[str]:
        """Return the groups whose members subscribe to something."""
        return list(self._by_group)

    def has_readers(self, group: str, topic: str) -> bool:
        """Return whether a member of the group subscribes to the topic."""
        return topic in self._by_group.get(group, ())

    def filters_agree(self, group: str, topic: str) -> bool:
        """Return whether all of the group's members that subscribe to the topic use one filter."""
        return len(self._by_group.get(group, {}).get(topic, _NOBODY).clients_with) <= 1

    def topic_filters(self, group: str, topic: str) -> dict[str, str]:
        """Return the filter of each of the group's members that subscribe to the topic, by client id; see
        `kept_text`."""
        return dict(self._by_group.get(group, {}).get(topic, _NOBODY).filters)

    def group_filters(self, group: str) -> dict[str, dict[str, str]]:
        """Return the filters for each topic that members of the group subscribe to, by client id."""
        return {topic: dict(members.filters) for topic, members in self._by_group.get(group, {}).items()}

    def list_subscriptions(self) -> list[TopicSubscription]:
        """Return each group with each topic that a member of it subscribes to."""
        return [TopicSubscription(group, topic) for group, topics in self._by_group.items() for topic in topics]

    def new_subscriptions(self) -> list[TopicSubscription]:
        """Return the new subscriptions, until `mark_known`."""
        return list(self._news)

    def mark_known(self, subscription: TopicSubscription) -> None:
        """Remove a subscription from the new ones."""
        self._news.pop(subscription, None)


def find_contradictions(filters: "Mapping[str, Mapping[str, str]]") -> list[str]:
    """Return a sentence for each topic that members of a group filter differently; `filters` are those of each topic,
    by client id."""
    return [_contradiction_text(topic, its) for topic, its in sorted(filters.items()) if len(set(its.values())) > 1]


def _contradiction_text(topic: str, filters: "Mapping[str, str]") -> str:
    clients_of: dict[str, list[str]] = {}
    for client_id, expression in sorted(filters.items()):
        clients_of.setdefault(expression, []).append(client_id)
    sides = [f"{expression!r} by {list_names(names, 'clients')}" for expression, names in sorted(clients_of.items())]
    more = f"; and {len(sides) - SIDES_MAX} more filters" if len(sides) > SIDES_MAX else ""
    return (
        f"topic {topic} is filtered differently, so messages are skipped for some: {'; '.join(sides[:SIDES_MAX])}{more}"
    )


def _warn_contradiction(group: str, topic: str, members: _TopicMembers, client_id: str) -> None:
    expression = members.filters[client_id]
    other, others = next(each for each in members.filters.items() if each[1] != expression)
    _log.warning(
        "%d members of group %s filter topic %s differently: %s uses %r, %s uses %r; each skips for good what the "
        "others want; see `ternmq group describe %s`",
        len(members.filters), group, topic, client_id, expression, other, others, group,
    )  # fmt: skip


def kept_text(expression: str) -> str:
    """Return what is remembered of a filter: a long one is cut, and gets a digest that tells it from others."""
    if len(expression) <= CUT_AT:
        return expression
    digest = sha256(expression.encode()).hexdigest()[:16]
    return f"{expression[:CUT_AT]}... ({len(expression)} characters, SHA-256 {digest})"
