"""Checks arguments of clients that are surely mistakes: a TypeError at once says what to write instead."""

import inspect
from collections.abc import Iterable, Mapping

from ternmq.options import ClientOptions


def check_options(client: type, options: Mapping[str, object]) -> None:
    """TypeError, with the nearest name, for a keyword that the client does not have."""
    for name in options:
        if name not in ClientOptions.__annotations__:
            from ternmq_common.settings import did_you_mean  # used only here

            parameters = inspect.signature(client).parameters.values()
            known = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
            known |= ClientOptions.__annotations__.keys()
            raise TypeError(f"{client.__name__} has no argument {name!r}{did_you_mean(name, known)}")


def check_topics(topics: Iterable[str], argument: str = "topics") -> list[str]:
    """Return the names. A plain string is refused, since it would be split into its letters."""
    if isinstance(topics, str):
        raise TypeError(f'{argument} is a list of names: write {argument}=["{topics}"]')
    names = list(topics)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{argument} is a list of names, which {name!r} is not")
    return names
