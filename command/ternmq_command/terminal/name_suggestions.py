"""Suggests names that are similar to an unknown one."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from ternmq_command.terminal.failures import CallRefused
from ternmq_common.printable import cut_text

if TYPE_CHECKING:
    from ternmq_command.calls.admin import AdminClient

SUGGESTED_MAX = 3
WORD_MAX = 200
NOT_FOUND = ("TOPIC_NOT_FOUND", "CONSUMER_GROUP_NOT_FOUND")


def suggest_names(word: str, known: Iterable[str]) -> str | None:
    """Return a hint such as `did you mean 'orders' or 'orders-2'?`, None if no known name is similar."""
    import difflib  # not for calls that succeed

    # A name of thousands of characters is similar to none, and comparing it would take seconds.
    near = difflib.get_close_matches(word, list(known), n=SUGGESTED_MAX) if len(word) <= WORD_MAX else []
    return f"did you mean {' or '.join(map(repr, near))}?" if near else None


@contextmanager
def suggesting_names(admin: "AdminClient", kind: Literal["topic", "group"], name: str) -> Iterator[None]:
    """Add similar names to the refusal when the server does not have the topic or group of the calls inside.

    The server's hint how to create it is dropped, since the caller wants to read or delete it.
    """
    try:
        yield
    except CallRefused as refusal:
        if refusal.word not in NOT_FOUND:
            raise
        hint = suggest_names(name, list_names(admin, kind)) or f"`ternmq {kind} list` shows all"
        raise CallRefused(refusal.code, f"there is no {kind} {cut_text(name)!r}", hint=hint) from None


def list_names(admin: "AdminClient", kind: Literal["topic", "group"]) -> list[str]:
    """Return the names of all topics, or of all groups."""
    from ternmq.admin import groups as group_calls
    from ternmq.admin import topics as topic_calls

    if kind == "topic":
        return [topic.name for topic in admin.send_call(topic_calls.list_topics())]
    return [group.name for group in admin.send_call(group_calls.list_groups())]
