"""The topics that a producer names in its settings, of all that it has sent to.

Servers take so many of a client and no more, and refuse settings with another one: then the producer has no session. So
some are left out, those first for which it makes a difference last:

1. named by the user
2. of transactions, the last first: a server asks the producers of a topic how a transaction ends
3. all others, in the order of their first use
"""

import itertools
from collections.abc import Iterable

from ternmq_common.limits import SETTINGS_TOPICS_MAX


class PublishedTopics:
    """`topic in topics` says whether a producer has sent to it, or was told that it will. Settings name `told_max`."""

    def __init__(self, named: Iterable[str], told_max: int = SETTINGS_TOPICS_MAX) -> None:
        self._told_max = told_max
        self._named = dict.fromkeys(named)
        self._transactional = dict[str, None]()
        self._used = dict[str, None]()

    def __contains__(self, topic: object) -> bool:
        return topic in self._named or topic in self._transactional or topic in self._used

    @property
    def told(self) -> list[str]:
        """Those that settings name. Of more named ones than a server takes it hears, and refuses them."""
        room = max(0, self._told_max - len(self._named))
        others = itertools.chain(reversed(self._transactional), self._used)
        return sorted([*self._named, *itertools.islice(others, room)])

    def add(self, topic: str, *, transactional: bool) -> bool:
        """Whether servers have to hear of it, for a topic that is used in this way for the first time."""
        if topic in self._named or topic in self._transactional or (topic in self._used and not transactional):
            return False
        is_new = topic not in self._used
        if transactional:
            self._used.pop(topic, None)
            self._transactional[topic] = None
        else:
            self._used[topic] = None
        fits = len(self._named) + len(self._transactional) + len(self._used) <= self._told_max
        return is_new if fits else transactional

    def drop(self, topic: str) -> None:
        """It is not there; one that the user has named stays."""
        self._transactional.pop(topic, None)
        self._used.pop(topic, None)
