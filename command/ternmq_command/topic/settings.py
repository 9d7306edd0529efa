"""The settings of a topic, as the command prints them."""

from typing import TYPE_CHECKING

from ternmq_command.terminal.output import iso_or_none
from ternmq_command.terminal.setting_options import settings_record
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS

if TYPE_CHECKING:
    from ternmq.admin.topics import Topic

# The keys of `ternmq.admin.requests.words.TYPES`, which needs the protocol's code to be imported.
TYPE_NAMES = ("normal", "fifo", "delay", "transaction", "priority", "lite", "mixed")
LITE = "lite"
QUEUES, *SETTINGS = TOPIC_SETTINGS
LITE_SETTINGS = tuple(each for each in SETTINGS if each.is_lite)
LITE_COLUMNS = tuple(each.name for each in LITE_SETTINGS)
"""Of `topic_record`, for topics of type lite only."""


def topic_record(topic: "Topic") -> dict[str, object]:
    """Return what lists show of a topic."""
    lite = settings_record(LITE_SETTINGS, topic)
    return {
        "name": topic.name,
        "type": topic.type,
        "queues": topic.queues,
        "created": iso_or_none(topic.created),
        **(lite if topic.type == LITE else dict.fromkeys(lite)),
    }


def full_topic_record(topic: "Topic") -> dict[str, object]:
    """Return a topic's record with the settings that matter in a cluster."""
    return {
        **topic_record(topic),
        **settings_record([each for each in SETTINGS if not each.is_lite], topic),
        "brokers": list(topic.brokers),
    }
