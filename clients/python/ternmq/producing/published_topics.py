"""The topics that a producer names in its settings, of all that it has sent to.

Servers accept a limited number for a client, and refuse settings with more: then the producer has no session. So some
are left out, the least important first. The order of importance:

1. named by the user
2. of transactions, the last first: a server asks the producers of a topic how a transaction ends
3. all others, in the order of their first use
"""

import itertools
from collections.abc import Iterable

from ternmq_common.limits import SETTINGS_TOPICS_MAX


class PublishedTopics:
    """The published topics. `topic in topics`: the producer has sent to it, or will. Settings have `settings_max` at
    most."""

    def __init__(self, named: Iterable[str], settings_max: int = SETTINGS_TOPICS_MAX) -> None:
        self._settings_max = settings_max
        self._named = dict.fromkeys(named)
        self._transactional = dict[str, None]()
        self._used = dict[str, None]()

    def __contains__(self, topic: object) -> bool:
        return topic in self._named or topic in self._transactional or topic in self._used

    @property
    def settings_topics(self) -> list[str]:
        """The topics for the settings. If more are named than a server accepts, all of these are sent, and refused."""
        room = max(0, self._settings_max - len(self._named))
        others = itertools.chain(reversed(self._transactional), self._used)
        return sorted([*self._named, *itertools.islice(others, room)])

    def add_topic(self, topic: str, *, transactional: bool) -> bool:
        """Add a topic; return whether servers need new settings, since it is used in this way for the first time."""
        if topic in self._named or topic in self._transactional or (topic in self._used and not transactional):
            return False
        is_new = topic not in self._used
        if transactional:
            self._used.pop(topic, None)
            self._transactional[topic] = None
        else:
            self._used[topic] = None
        fits = len(self._named) + len(self._transactional) + len(self._used) <= self._settings_max
        return is_new if fits else transactional

    def drop_topic(self, topic: str) -> None:
        """Drop a topic that does not exist; one that the user has named stays."""
        self._transactional.pop(topic, None)
        self._used.pop(topic, None)
