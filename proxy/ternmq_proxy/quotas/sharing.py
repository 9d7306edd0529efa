"""How proxies share a limit: by max-min of what each wants, and what nobody wants is everybody's in equal parts.

All make the same shares of the same demand, so nobody has to decide for the others; the shares of all are the limit.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def max_min(limit: float, wanted: "Sequence[float]") -> list[float]:
    """A share for each that wants something, in their order. Nobody gets less than its equal part while it wants that,
    and what one does not want is lent to those who want more; what is left then is shared out evenly."""
    shares = [0.0] * len(wanted)
    left, remaining = limit, len(wanted)
    for place in sorted(range(len(wanted)), key=wanted.__getitem__):
        shares[place] = min(wanted[place], left / remaining)
        left -= shares[place]
        remaining -= 1
    if not wanted:
        return shares
    return [share + max(0.0, left) / len(wanted) for share in shares]
