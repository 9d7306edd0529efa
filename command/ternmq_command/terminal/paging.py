"""Long sequences, a page at a time."""

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, the last one shorter; none is empty."""
    rest = iter(items)
    while page := list(itertools.islice(rest, size)):
        yield page
