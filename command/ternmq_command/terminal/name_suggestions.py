"""Suggests names that are similar to an unknown one."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ternmq_command.terminal.failures import CallRefused
from ternmq_common.printable import cut_text

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
def suggesting_names(kind: str, name: str, known: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Add similar names to the refusal when the server does not have the topic or group of the calls inside.

    The server's hint how to create it is dropped, since the caller wants to read or delete it. `known` fetches all
    names.
    """
    try:
        yield
    except CallRefused as refusal:
        if refusal.word not in NOT_FOUND:
            raise
        hint = suggest_names(name, known()) or f"`ternmq {kind} list` shows all"
        raise CallRefused(refusal.code, f"there is no {kind} {cut_text(name)!r}", hint=hint) from None
