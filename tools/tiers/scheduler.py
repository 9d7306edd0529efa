"""Decides which tiers may run now. Pure: without processes and clocks.

Preparations run one after the other, since apt-get can't run twice at a time. A tier starts when its preparations
are done, no other tier with its word `alone_with` runs, and the cores and the memory of all that runs stay below
the machine's. A tier that alone is larger than the machine runs when nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.tiers.tiers import Tier

# Of the peaks that tiers declare, which do not come at the same time: of 7,500 MiB a run used 5,700.
MEMORY_MAX_MIB = 9_000
# Tiers wait for processes, disks and clocks for a part of their time, so that more than the cores can be handed out.
# With 1.9 four tiers ran at once: no faster, as both cores were busy, and tests came to their time limits.
CORES_FACTOR = 1.6


@dataclass(slots=True)
class Schedule:
    """The preparations and tiers to run, in the wanted order; the caller reports starts and ends."""

    tiers: Sequence[Tier]
    preparations: Sequence[str]
    cores: float
    memory_mib: int = MEMORY_MAX_MIB
    running: dict[str, Tier] = field(default_factory=dict)
    preparing: str = ""
    done: dict[str, bool] = field(default_factory=dict)
    """Preparations that ended, and whether they succeeded."""
    ended: set[str] = field(default_factory=set)

    def next_preparation(self) -> str | None:
        """Return the preparation to start now, if there is one."""
        if self.preparing:
            return None
        return next((each for each in self.preparations if each not in self.done), None)

    def next_tier(self) -> Tier | None:
        """Return the first wanted tier that may start now."""
        for tier in self._waiting():
            if self._is_ready(tier) and self._fits(tier):
                return tier
            if self.preparing and self.running and not self._is_ready(tier):
                # Tiers behind it would take its place for minutes; beside a preparation, which computes, one is enough.
                return None
        return None

    def blocked(self) -> Mapping[str, str]:
        """Return each waiting tier that can't run, with its preparation that failed."""
        failed = {name for name, succeeded in self.done.items() if not succeeded}
        found = {tier.name: next((need for need in tier.needs if need in failed), "") for tier in self._waiting()}
        return {name: need for name, need in found.items() if need}

    @property
    def is_finished(self) -> bool:
        return not self.preparing and all(tier.name in self.ended for tier in self.tiers)

    def _waiting(self) -> list[Tier]:
        return [tier for tier in self.tiers if tier.name not in self.running and tier.name not in self.ended]

    def _is_ready(self, tier: Tier) -> bool:
        return all(self.done.get(need, False) for need in tier.needs)

    def _fits(self, tier: Tier) -> bool:
        running = self.running.values()
        if not running:
            return True
        if tier.alone_with and any(each.alone_with == tier.alone_with for each in running):
            return False
        cores = sum(each.cores for each in running) + tier.cores
        memory_mib = sum(each.memory_mib for each in running) + tier.memory_mib
        return cores <= self.cores * CORES_FACTOR and memory_mib <= self.memory_mib
