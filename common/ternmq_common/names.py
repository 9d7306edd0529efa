"""The allowed names of topics, groups and lite topics (`overview.md, Names`), and names derived of them."""

import re
from typing import Final

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import GROUP_CHARACTERS_MAX, LITE_TOPIC_BYTES_MAX, TOPIC_CHARACTERS_MAX
from ternmq_common.printable import cut_text

DISCARD_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
"""The topic of the message traces of RocketMQ's clients, if tracing is on."""
SYSTEM_TOPICS: Final = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
        DISCARD_TOPIC,
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        TRACE_TOPIC,
    }
)
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
RESERVED_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
LITE_PREFIX: Final = "%LMQ%$"
_LEGAL: Final = re.compile(r"[A-Za-z0-9_\-%|]+", re.ASCII)
_LEGAL_LITE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def check_topic_name(name: str) -> str:
    """Check that a client may use a topic of that name; ILLEGAL_TOPIC."""
    problem = _find_problem("topic", name, TOPIC_CHARACTERS_MAX)
    if problem is None and is_system_topic(name):
        problem = f"topic {name!r} is reserved for the broker"
    if problem:
        raise MessagingError(ErrorCode.ILLEGAL_TOPIC, problem)
    return name


def check_group_name(name: str) -> str:
    """Check that a client may use a consumer group of that name; ILLEGAL_CONSUMER_GROUP."""
    problem = _find_problem("consumer group", name, GROUP_CHARACTERS_MAX)
    if problem is None and name.startswith(RESERVED_GROUP_PREFIX):
        problem = f"consumer group {name!r}: names that begin with {RESERVED_GROUP_PREFIX} are reserved for the broker"
    if problem:
        raise MessagingError(ErrorCode.ILLEGAL_CONSUMER_GROUP, problem)
    return name


def check_lite_topic_name(name: str, bytes_max: int = LITE_TOPIC_BYTES_MAX) -> str:
    """Check that a lite topic may have that name; ILLEGAL_LITE_TOPIC."""
    if not is_legal_lite(name, bytes_max):
        raise MessagingError(
            ErrorCode.ILLEGAL_LITE_TOPIC,
            f"lite topic {cut_text(name)!r}: 1 to {bytes_max} letters, digits, _ or - are allowed",
        )
    return name


def is_legal_lite(name: str, bytes_max: int = LITE_TOPIC_BYTES_MAX) -> bool:
    """Whether a lite topic may have that name; each allowed character is one byte."""
    return len(name) <= bytes_max and _LEGAL_LITE.fullmatch(name) is not None


def retry_topic(group: str) -> str:
    """The topic of the group's messages that are redelivered."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic of the messages that used up their attempts in the group."""
    return DEAD_LETTER_PREFIX + group


def lite_queue_topic(topic: str, lite_topic: str) -> str:
    """The topic of the store that has the one queue of that lite topic. Clients can't name it: `$` is in no name."""
    return f"{LITE_PREFIX}{topic}${lite_topic}"


def is_lite_queue(topic: str) -> bool:
    return topic.startswith(LITE_PREFIX)


def lite_parent(topic: str) -> str:
    """The LITE topic of the lite topic whose queue has that topic; every other topic is its own."""
    return topic[len(LITE_PREFIX) :].partition("$")[0] if topic.startswith(LITE_PREFIX) else topic


def lite_name(topic: str) -> str:
    """The name of the lite topic whose queue has that topic."""
    return topic[len(LITE_PREFIX) :].partition("$")[2]


def lite_wait_key(topic: str, client_id: str) -> str:
    """The wait key of a client's polls for lite topics of that topic. No topic's name has a line break."""
    return f"{topic}\n{client_id}"


def group_of_derived(topic: str) -> str | None:
    """The group of which this is the retry or dead-letter topic; None for every other topic."""
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return None


def is_system_topic(name: str) -> bool:
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def _find_problem(kind: str, name: str, characters_max: int) -> str | None:
    if not name.strip():
        return f"the name of the {kind} is empty"
    if len(name) > characters_max:
        return f"the name of the {kind} has {len(name)} characters; {characters_max} are allowed"
    if not _LEGAL.fullmatch(name):
        return f"{kind} {name!r}: letters, digits and the characters _ - % | are allowed"
    return None
