"""Notices forks of the process.

A child has its parent's memory and sockets but none of its threads: nothing runs the objects from before the fork, and
what the child writes mixes with the parent's own bytes.
"""

import os
from collections.abc import Callable

_forks = 0


def run_in_children(renew: Callable[[], None]) -> None:
    """Have `renew` called in each child before anything else runs there; never, if the system has no fork."""
    run_around_forks(lambda: None, renew)


def run_around_forks(before: Callable[[], None], in_child: Callable[[], None]) -> None:
    """Have these functions called in the parent before each fork, and in the child after it."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_child=in_child)


def fork_count() -> int:
    """Return the number of forks between the import of the library and this process: it differs in another process."""
    return _forks


def _count_fork() -> None:
    global _forks  # noqa: PLW0603 - it is the process's
    _forks += 1


run_in_children(_count_fork)
