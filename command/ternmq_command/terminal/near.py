"""What was probably meant by a name that isn't known."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ternmq_command.terminal.failures import Refused
from ternmq_common.printable import cut

SUGGESTED_MAX = 3
WORD_MAX = 200
NOT_FOUND = ("TOPIC_NOT_FOUND", "CONSUMER_GROUP_NOT_FOUND")


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """`did you mean 'orders' or 'orders-2'?`; None if nothing is near."""
    import difflib  # not for calls that succeed

    # A name of thousands of characters is near to nothing, and comparing it would take seconds.
    near = difflib.get_close_matches(word, list(known), n=SUGGESTED_MAX) if len(word) <= WORD_MAX else []
    return f"did you mean {' or '.join(map(repr, near))}?" if near else None


@contextmanager
def naming_near(kind: str, name: str, known: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Around calls about one topic or group that must be there: where the server has none, near names are told, and not
    how to make one, which nobody wants who deletes or looks. `known` asks for all names."""
    try:
        yield
    except Refused as refusal:
        if refusal.word not in NOT_FOUND:
            raise
        hint = did_you_mean(name, known()) or f"`ternmq {kind} list` shows all"
        raise Refused(refusal.code, f"there is no {kind} {cut(name)!r}", hint=hint) from None
