"""The group that a stream tells its progress (option `group`), so that others see its lag and who reads.

Told     at each trigger where the query goes on from. What lies before it is done: Spark has noted the micro-batch that
         ended there. So the group is never ahead of the checkpoint, which alone decides where to go on.
Member   the driver is one that pulls, as long as triggers come; its client id begins with "spark". PySpark 4.3 ends it
         without a word, so it is a member until the server has not heard of it for a while.
Failing  a group that can't be told for a moment is told the next time; one that can't be at all ends the query.
"""

import logging
import math

from pyspark_ternmq.source.position import Position
from pyspark_ternmq.source.watch import Seen
from ternmq import ClientError
from ternmq.offset_reader import OffsetReader

_log = logging.getLogger(__name__)
JOIN_INTERVAL_S = 10.0


class GroupProgress:
    """Of one query. Tells what has changed; nothing else costs a call."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._told: dict[tuple[str, str], int] = {}
        self._joined_at_s = -math.inf
        self._is_failing = False

    def tell(self, reader: OffsetReader, seen: Seen, at: Position, now_s: float) -> None:
        """The query goes on from there, of the topics that are seen now."""
        reader = reader.without_patience()
        news = self._news(seen, at)
        try:
            if news:
                reader.commit(
                    self._group, [(seen.queues[topic][name], offset) for (topic, name), offset in news.items()]
                )
                self._told |= news
            # After it, for that makes a group that isn't there, of the kind that its topics are.
            if self._told and now_s - self._joined_at_s >= JOIN_INTERVAL_S:
                reader.join(self._group)
                self._joined_at_s = now_s
            self._is_failing = False
        except ClientError as error:
            if not error.retryable:
                raise
            if not self._is_failing:
                _log.warning("cannot commit the progress of group %s now: %s", self._group, error)
            self._is_failing = True

    def _news(self, seen: Seen, at: Position) -> dict[tuple[str, str], int]:
        """Offsets that the group does not know; none of a topic that was made anew, or of what its broker has lost."""
        anew = at.made_anew(seen.identities)
        return {
            (topic, name): offset
            for topic, ends in seen.ends.items()
            for name, end in ends.items()
            if topic not in anew
            and name in seen.queues.get(topic, {})
            and (offset := at.offset(topic, name)) is not None
            and offset <= end
            and offset != self._told.get((topic, name))
        }
