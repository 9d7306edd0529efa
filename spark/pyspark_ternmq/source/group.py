"""Commits the progress of a stream to a consumer group (option `group`), which shows its lag and its driver.

Commits  the start of the next micro-batch at each trigger. Messages before it are done: Spark has noted the micro-batch
         that ended there. So the group is never ahead of the checkpoint, which alone decides where the query continues.
Member   the driver is a pulling member while triggers come; its client id begins with "spark". PySpark 4.3 ends it
         without a call, so it is a member until the server removes it.
Others   a group is for one query. Another driver in the group is reported each minute in the log. A query that is
         restarted after a kill finds its own former driver until servers remove it, so that one is reported only if it
         stays. Other drivers are not refused, as that would lock a restart out.
Failing  a commit that fails for a moment is repeated at the next trigger; a permanent failure ends the query.
"""

import logging
import math

from pyspark_ternmq.source.offsets.position import StreamPosition
from pyspark_ternmq.source.watch import SeenTopics
from ternmq import ClientError
from ternmq.pull.offset_reader import OffsetReader

_log = logging.getLogger(__name__)
JOIN_INTERVAL_S = 10.0
LOOK_INTERVAL_S = 60.0
# Servers forget a client that says nothing after two minutes, unless they are set up otherwise.
FORGOTTEN_S = 180.0
_KIND = "spark@"


class GroupProgress:
    """The progress of one query in its consumer group; only changes cost a call."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._committed: dict[tuple[str, str], int] = {}
        self._joined_at_s = -math.inf
        self._is_failing = False
        self._others = OtherDrivers(group)

    def commit_progress(self, reader: OffsetReader, seen: SeenTopics, at: StreamPosition, now_s: float) -> None:
        """Commit the offsets from which the query continues, for the topics that exist now."""
        reader = reader.without_patience()
        news = self._changed_offsets(seen, at)
        try:
            if news:
                reader.commit(
                    self._group, [(seen.queues[topic][name], offset) for (topic, name), offset in news.items()]
                )
                self._committed |= news
            # After the commit, which creates a missing group with the type of its topics.
            if self._committed and now_s - self._joined_at_s >= JOIN_INTERVAL_S:
                self._others.check_drivers(reader, now_s)
                reader.join(self._group)
                self._joined_at_s = now_s
            self._is_failing = False
        except ClientError as error:
            if not error.retryable:
                raise
            if not self._is_failing:
                _log.warning("cannot commit the progress of group %s now: %s", self._group, error)
            self._is_failing = True

    def _changed_offsets(self, seen: SeenTopics, at: StreamPosition) -> dict[tuple[str, str], int]:
        """Return the offsets that the group does not have yet, without recreated topics and topics that lost
        messages."""
        recreated = at.recreated_topics(seen.identities)
        return {
            (topic, name): offset
            for topic, ends in seen.ends.items()
            for name, end in ends.items()
            if topic not in recreated
            and name in seen.queues.get(topic, {})
            and (offset := at.find_offset(topic, name)) is not None
            and offset <= end
            and offset != self._committed.get((topic, name))
        }


class OtherDrivers:
    """Logs each minute which other drivers of Spark are members of the group."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._looked_at_s = -math.inf
        self._since_s: dict[str, float] | None = None  # when each was seen first; None before the first look
        self._can_look = True

    def check_drivers(self, reader: OffsetReader, now_s: float) -> None:
        """Called before this driver joins, and now and then afterwards."""
        if not self._can_look or now_s - self._looked_at_s < LOOK_INTERVAL_S:
            return
        self._looked_at_s = now_s
        try:
            members = reader.members(self._group)
        except ClientError as error:
            if error.retryable:
                return
            # Another server than TernMQ, or a user that may not look.
            _log.info("whether group %s has other readers is not known: %s", self._group, error)
            self._can_look = False
            return
        if others := self._living_members(members, reader.client_id, now_s):
            _log.warning(
                "group %s has other readers beside this query: %s; the progress that each commits replaces what the "
                "others committed, so that the group's lag says nothing. Give each query a group of its own",
                *(self._group, ", ".join(others)),
            )

    def _living_members(self, members: list[str], own: str, now_s: float) -> list[str]:
        """The drivers that came since the first look, or have been there for longer than servers remember the dead."""
        is_first, known = self._since_s is None, self._since_s or {}
        found = sorted(each for each in members if each.startswith(_KIND) and each != own)
        # A driver that is there at the first look may be dead; a later one is not.
        self._since_s = {each: known.get(each, now_s if is_first else -math.inf) for each in found}
        return [each for each in found if now_s - self._since_s[each] >= FORGOTTEN_S]
