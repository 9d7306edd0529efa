"""The intervals, in seconds, at which commands poll for a change that they wait for."""

from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True, kw_only=True)
class PollIntervals:
    """The intervals of one call of the command; callers in the same process may pass others as click's `obj`."""

    draining_s: float = 1.0
    leader_s: float = 0.5
    registry_s: float = 0.5


def poll_intervals() -> PollIntervals:
    context = click.get_current_context(silent=True)
    given = None if context is None else context.find_object(PollIntervals)
    return given or PollIntervals()
