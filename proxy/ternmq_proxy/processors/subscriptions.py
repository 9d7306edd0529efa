"""What the members of each group subscribe to, and where they contradict each other (`consumer.md` 2.4).

The filter of each receive is what counts. When two members of a group use different ones for a topic, each skips for
good what the other wanted: nothing forbids it, so it is logged when it begins, and shown to operators while it lasts.
"""

import logging

_log = logging.getLogger(__name__)


class Subscriptions:
    """The filter that each member of each group uses for each topic, as it was seen last."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[str, str]]] = {}  # group, topic, client id: expression
        self._groups_of: dict[str, set[str]] = {}

    def replaced(self, group: str, client_id: str, expressions: dict[str, str]) -> None:
        """The client told all that it subscribes to: topic to filter."""
        for topic, members in list(self._by_group.get(group, {}).items()):
            if topic not in expressions and members.pop(client_id, None) is not None:
                self._drop_if_empty(group, topic)
        for topic, expression in expressions.items():
            self.used(group, client_id, topic, expression)

    def used(self, group: str, client_id: str, topic: str, expression: str) -> None:
        """The client receives from the topic with that filter."""
        members = self._by_group.setdefault(group, {}).setdefault(topic, {})
        before = members.get(client_id)
        if before == expression:
            return
        members[client_id] = expression
        self._groups_of.setdefault(client_id, set()).add(group)
        if len(members) > 1:
            others = sorted({other for other in members.values() if other != expression})
            if others:
                _log.warning(
                    "members of group %s filter topic %s differently: %s uses %r, others %s; each skips for good what "
                    "the others want",
                    group,
                    topic,
                    client_id,
                    expression,
                    ", ".join(map(repr, others)),
                )

    def forget(self, client_id: str) -> None:
        """The client is gone."""
        for group in self._groups_of.pop(client_id, ()):
            for topic, members in list(self._by_group.get(group, {}).items()):
                if members.pop(client_id, None) is not None:
                    self._drop_if_empty(group, topic)

    def _drop_if_empty(self, group: str, topic: str) -> None:
        topics = self._by_group[group]
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del self._by_group[group]

    def of(self, group: str, client_id: str) -> dict[str, str]:
        """Topic to filter expression of one member."""
        topics = self._by_group.get(group, {})
        return {topic: members[client_id] for topic, members in sorted(topics.items()) if client_id in members}

    def inconsistencies(self, group: str) -> list[str]:
        """A sentence for each topic that members of the group filter differently."""
        found = []
        for topic, members in sorted(self._by_group.get(group, {}).items()):
            clients_of: dict[str, list[str]] = {}
            for client_id, expression in sorted(members.items()):
                clients_of.setdefault(expression, []).append(client_id)
            if len(clients_of) > 1:
                sides = "; ".join(
                    f"{expression!r} by {', '.join(clients)}" for expression, clients in sorted(clients_of.items())
                )
                found.append(f"topic {topic} is filtered differently, so messages are skipped for some: {sides}")
        return found
