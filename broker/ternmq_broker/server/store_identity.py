"""The id of a broker's store (the file `store-id` beside it), and what is lost when an empty store replaces it.

The registry gives a name only to the store that it knows (`ternmq_registry/members/brokers.py`), so that a broker
does not run on a wrong volume, or after it lost its disk.
"""

import logging
import re
import secrets
from typing import TYPE_CHECKING

from ternmq_broker.server.note_file import NoteFile

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_common.catalog.cluster import BrokerEntry, RegistrySnapshot

_log = logging.getLogger(__name__)
STORE_ID = "store-id"
_TOPICS_SHOWN = 5


def store_id(data_dir: "Path", *, is_used: bool) -> str:
    """The id that tells this store from others whose broker has the same name; created once.

    `is_used`: the store has messages. Blocks. StartupError if the file is damaged: with another id the registry takes
    the store for an unknown one.
    """
    file = _file_in(data_dir)
    known = file.read()
    if known is None and is_used:
        _log.warning(
            "the file %s is gone though the store has messages: it gets another id, which the registry may refuse",
            data_dir / STORE_ID,
        )
    if known is None:
        known = secrets.token_hex(16)
        file.write(known)
    return known


def known_store_id(data_dir: "Path") -> str | None:
    """Read the id; None if there is none yet. Creates nothing."""
    return _file_in(data_dir).read()


def _file_in(data_dir: "Path") -> NoteFile:
    return NoteFile(
        data_dir / STORE_ID,
        old=re.compile("[0-9a-f]{32}"),
        advice="restore it from a copy, or write into it the id that the registry knows: without it the broker gets "
        "another one, which the registry refuses beside the known one",
    )


def describe_loss(before: "BrokerEntry", snapshot: "RegistrySnapshot") -> str:
    """Describe what is lost with the broker's old store that an empty one replaces, as far as the registry knows."""
    topics = sorted(topic.name for topic in snapshot.topics.values() if before.name in topic.brokers)
    shown = ", ".join(topics[:_TOPICS_SHOWN]) + (", ..." if len(topics) > _TOPICS_SHOWN else "")
    return (
        f"store {before.store_id} is given up: what was in its queues ({len(topics)} topics: {shown or 'none'}) is "
        "lost, with timed messages, open transactions and the offsets of consumer groups, which begin again; a reader "
        "by offset that is beyond the new ends gets ILLEGAL_OFFSET"
    )
