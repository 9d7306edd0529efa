"""Remembers the traces of delivered messages, so that later calls about these messages continue them.

A receipt handle has no room for a trace, and a client that acknowledges a message need not send one. So the proxy that
delivered the message remembers its producer's trace context by the message's place. Only spans depend on it: other
proxies don't know it, and the oldest are forgotten.
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.receipt_handle import ReceiptHandle
    from ternmq_proxy.handles import HandleForms

TRACES_MAX = 10_000
# As many links as a span may have.
LOOKED_UP_MAX = 128
_Place = tuple[str, str, str, int, int]


class DeliveredTraces:
    """The producers' traces of the messages that were delivered last, at most `traces_max` of them."""

    def __init__(self, handles: "HandleForms", traces_max: int = TRACES_MAX) -> None:
        self._handles = handles
        self._max = traces_max
        self._left: dict[_Place, str] = {}

    def remember_trace(self, group: str, topic: str, handle: "ReceiptHandle", traceparent: str) -> None:
        """Remember that the message with that handle is in this recorded trace."""
        place = _message_place(group, topic, handle)
        self._left.pop(place, None)
        self._left[place] = traceparent
        if len(self._left) > self._max:
            del self._left[next(iter(self._left))]

    def find_traces(self, group: str, topic: str, texts: "Sequence[str]") -> list[str]:
        """Return the known traces of the messages with these receipt handles. It looks at `LOOKED_UP_MAX` handles at
        most, since each costs a MAC."""
        if not self._left:
            return []
        found: list[str] = []
        try:
            form = self._handles.form_for(group, topic)
        except MessagingError:
            return found  # illegal names; the call itself is refused for them
        for text in texts[:LOOKED_UP_MAX]:
            try:
                place = _message_place(group, topic, form.decode_handle(text))
            except MessagingError:
                continue  # not one of our handles, as the call's answer says
            if place in self._left:
                found.append(self._left[place])
        return found


def _message_place(group: str, topic: str, handle: "ReceiptHandle") -> _Place:
    return group, topic, handle.broker, handle.queue_id, handle.queue_offset
