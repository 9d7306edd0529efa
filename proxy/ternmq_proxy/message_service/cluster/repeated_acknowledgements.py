"""Repeats acknowledgements of the last seconds to a broker that reconnected.

A broker writes the progress of groups every second, and its followers have it no sooner. So a broker that was killed,
or the replica that leads in its place, knows which messages were delivered, but not that they are acknowledged, and a
FIFO group would be blocked until their invisible duration ends. A broker that did not forget treats repeated
acknowledgements as stale, which does no harm.
"""

from collections import defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.shard.calls import CALLS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_common.shard.receipt_handle import ReceiptHandle
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks

# A broker writes every second, its followers get it afterwards, and both may be late.
_KEPT_S = 3.0
# More than a broker can process in that time; some 10 MB.
_KEPT_MAX = 100_000
# Older messages have been delivered again by now.
_OLD_S = 60.0
_HANDLES_MAX = 1_000


class _SentAcknowledgement(NamedTuple):
    at_s: float
    group: str
    topic: str
    handles: "Sequence[ReceiptHandle]"


class _BrokerAcknowledgements:
    __slots__ = ("acknowledged", "handles")

    def __init__(self) -> None:
        self.acknowledged: deque[_SentAcknowledgement] = deque()
        self.handles = 0


class RepeatedAcknowledgements:
    """The acknowledgements that each broker answered within the last seconds."""

    def __init__(self, links: "BrokerLinks", seconds: "Callable[[], float]") -> None:
        """`seconds` is a monotonic clock."""
        self._links = links
        self._seconds = seconds
        self._brokers: defaultdict[str, _BrokerAcknowledgements] = defaultdict(_BrokerAcknowledgements)

    def note_acknowledged(self, broker: str, group: str, topic: str, handles: "Sequence[ReceiptHandle]") -> None:
        """Note that the broker acknowledged these messages."""
        now_s = self._seconds()
        kept = self._brokers[broker]
        acknowledged = kept.acknowledged
        acknowledged.append(_SentAcknowledgement(now_s, group, topic, handles))
        kept.handles += len(handles)
        # No call is answered while the broker is away, so that its last seconds stay.
        while acknowledged[0].at_s < now_s - _KEPT_S or (kept.handles > _KEPT_MAX and len(acknowledged) > 1):
            kept.handles -= len(acknowledged.popleft().handles)

    def link_changed(self, broker: str) -> None:
        """Repeat the acknowledgements to a broker that reconnected, before any other call."""
        kept, found = self._brokers.get(broker), self._links.find_broker(broker)
        if found is None:
            self._brokers.pop(broker, None)
            return
        if kept is None or not found.link.is_connected:
            return
        now_s = self._seconds()
        handles: defaultdict[tuple[str, str], list[ReceiptHandle]] = defaultdict(list)
        for acknowledged in kept.acknowledged:
            if acknowledged.at_s > now_s - _OLD_S:
                handles[acknowledged.group, acknowledged.topic] += acknowledged.handles
        for (group, topic), some in handles.items():
            for first in range(0, len(some), _HANDLES_MAX):
                found.link.notify_broker(CALLS["acknowledge"], (group, topic, some[first : first + _HANDLES_MAX]))
