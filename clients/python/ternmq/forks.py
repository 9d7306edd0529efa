"""Whether the process was forked since something was made.

A child has its parent's memory and sockets and none of its threads: nobody runs what was made before, and what is
written goes between the parent's own bytes.
"""

import os
from collections.abc import Callable

_forks = 0


def in_forked_children(renew: Callable[[], None]) -> None:
    """Have it called in each child before anything else runs there; never, where there is no fork."""
    around_forks(lambda: None, renew)


def around_forks(before: Callable[[], None], in_child: Callable[[], None]) -> None:
    """Have them called in the parent before each fork, and in the child after it."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_child=in_child)


def forks() -> int:
    """How many forks led to this process since the library was imported: another number means another process."""
    return _forks


def _count() -> None:
    global _forks  # noqa: PLW0603 - it is the process's
    _forks += 1


in_forked_children(_count)
