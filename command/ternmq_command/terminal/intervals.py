"""How often a command looks whether something has come about, in seconds."""

from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Of one call of the command; who calls it in a process of its own may give others, as click's `obj`."""

    draining_s: float = 1.0
    leader_s: float = 0.5
    registry_s: float = 0.5


def intervals() -> Intervals:
    context = click.get_current_context(silent=True)
    given = None if context is None else context.find_object(Intervals)
    return given or Intervals()
