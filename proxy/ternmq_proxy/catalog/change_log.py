"""Logs changes of topics, groups and users, with the user who made them.

Any client may cause such changes as fast as the registry takes them, so the lines of each host are limited per minute.
"""

import dataclasses
import logging
from typing import TYPE_CHECKING

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.pacing.log_throttle import LogThrottle, left_out_text
from ternmq_common.printable import cut_text
from ternmq_common.shard.model import Topic
from ternmq_proxy.call import current_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.shard.model import ConsumerGroup

_log = logging.getLogger(__name__)
PER_MINUTE = 600
# Settings that are left out of the text.
_UNTOLD = frozenset({"name", "created_ms", "created_version"})
_ALWAYS = frozenset({"type", "queues"})


class ChangeLog:
    """The log of changes of one process. `now` is a monotonic clock in seconds."""

    def __init__(self, now: "Callable[[], float]") -> None:
        self._throttle = LogThrottle(now, per_minute=PER_MINUTE)

    def log_created(self, what: "Topic | ConsumerGroup", *, by_use: bool) -> None:
        """Log that it was created; with `by_use` by the first use of its name."""
        details = ", ".join(f"{name} {value}" for name, value in _settings_text(what, unusual_only=True).items())
        self._log_change(f"{_kind_name(what)} {what.name} was created{' on first use' if by_use else ''}", details)

    def log_changed(self, before: "Topic | ConsumerGroup | None", after: "Topic | ConsumerGroup") -> None:
        """Log its new settings; `before` is None if the old ones are unknown."""
        old = {} if before is None else _settings_text(before)
        changes = (
            f"{name} {old[name]} to {value}" if name in old else f"{name} {value}"
            for name, value in _settings_text(after).items()
            if old.get(name) != value
        )
        self._log_change(f"{_kind_name(after)} {after.name} was changed", ", ".join(changes))

    def log_deleted(self, kind: str, name: str) -> None:
        """Log that it was deleted."""
        self._log_change(f"{kind} {name} was deleted", "")

    def done(self, what: str) -> None:
        """Log any other change, given as a sentence without its end."""
        self._log_change(what, "")

    def _log_change(self, done: str, details: str) -> None:
        call = current_call.get()
        left_out = self._throttle.admit_line("" if call is None else call.peer, "changes")
        if left_out is None:
            return
        who = "the server" if call is None else call.caller_text
        _log.info("%s by %s%s%s", done, who, f": {details}" if details else "", left_out_text(left_out))


def _kind_name(what: "Topic | ConsumerGroup") -> str:
    return "topic" if isinstance(what, Topic) else "group"


def _settings_text(what: "Topic | ConsumerGroup", *, unusual_only: bool = False) -> dict[str, str]:
    """Return the settings as text, without the defaults if `unusual_only`."""
    texts: dict[str, str] = {}
    # The type first: without it the other settings say little.
    for field in sorted(dataclasses.fields(what), key=lambda each: each.name != "type"):
        value = getattr(what, field.name)
        if field.name in _UNTOLD or (unusual_only and field.name not in _ALWAYS and value == field.default):
            continue
        if field.name == "type":
            value = MessageType(value).name
        elif field.name == "brokers":
            value = " ".join(value) or "none"
        elif field.name == "replication":
            value = value or "as each shard has it"
        texts[field.name] = cut_text(str(value))
    return texts
