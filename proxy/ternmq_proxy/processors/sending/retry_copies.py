"""Copies of messages that a pulling group failed on: for its retry queue, or its dead letters.

A copy is the message with other hidden fields: how often the group failed on it, the topic and the offset id of its
first form, and the delay level.
"""

from typing import TYPE_CHECKING

from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.names import retry_topic
from ternmq_common.shard.hidden_fields import RETRY_TOPIC, hidden_of, replace_hidden
from ternmq_common.shard.model import NewMessage
from ternmq_proxy.processors.sending.stored_form import read_names

if TYPE_CHECKING:
    from ternmq_common.shard.model import StoredMessage

_ORIGIN_MESSAGE_ID, _DELAY, _WAIT = "ORIGIN_MESSAGE_ID", "DELAY", "WAIT"
_REAL_TOPIC, _REAL_QUEUE_ID = "REAL_TOPIC", "REAL_QID"


class RetryCopy:
    """The next form of a message that a group sends back. `origin_topic` is the topic that it was sent to, `failures`
    how often the group failed on it, this time included."""

    __slots__ = ("_stored", "failures", "group", "origin_topic")

    def __init__(self, stored: "StoredMessage", group: str, named_topic: str) -> None:
        """`named_topic` is what the client says that the message was sent to; it counts where nothing else says it."""
        hidden = hidden_of(stored.system)
        is_retry = stored.queue.topic == retry_topic(group)
        self._stored = stored
        self.group = group
        self.failures = hidden.reconsume_times + 1
        known = hidden.properties.get(RETRY_TOPIC, named_topic) if is_retry else stored.queue.topic
        self.origin_topic = known or stored.queue.topic

    def make_message(self, origin_id: str, delay_level: int) -> NewMessage:
        """Return the copy in stored form; `origin_id` is the offset id of this form of the message."""
        stored = self._stored
        hidden = hidden_of(stored.system)
        properties = {
            RETRY_TOPIC: self.origin_topic,
            _ORIGIN_MESSAGE_ID: origin_id,
            **{name: value for name, value in hidden.properties.items() if name != RETRY_TOPIC},
            _DELAY: str(delay_level),
            _WAIT: "false",
        }
        if delay_level > 0:
            properties[_REAL_TOPIC], properties[_REAL_QUEUE_ID] = retry_topic(self.group), "0"
        changed = hidden._replace(reconsume_times=self.failures, properties=properties)
        names = read_names(stored.system)
        return NewMessage(
            tag_hash(names.tag),
            replace_hidden(stored.system, changed),
            stored.rest,
            (names.message_id, *names.keys),
        )
