"""Shares a limit among proxies: max-min of their demand, and equal parts of what no one requested.

All compute the same shares from the same demand, so there is no coordinator; the shares sum up to the limit.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def max_min(limit: float, wanted: "Sequence[float]") -> list[float]:
    """Return a share for each demand, in order. No share is below the equal part while the demand reaches it; the
    unused part goes to higher demands, and what is left then is divided evenly."""
    shares = [0.0] * len(wanted)
    left, remaining = limit, len(wanted)
    for place in sorted(range(len(wanted)), key=wanted.__getitem__):
        shares[place] = min(wanted[place], left / remaining)
        left -= shares[place]
        remaining -= 1
    if not wanted:
        return shares
    return [share + max(0.0, left) / len(wanted) for share in shares]
