"""Splits long sequences into pages."""

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def split_pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` items, the last one shorter; none is empty."""
    rest = iter(items)
    while page := list(itertools.islice(rest, size)):
        yield page
