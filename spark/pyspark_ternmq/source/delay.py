"""The delay of micro-batches that wait for more: options `minOffsetsPerTrigger` and `maxTriggerDelay`; pure.

The first trigger of a query takes what there is, so that a query that is often restarted makes progress. From then on
messages wait until there are enough of them, and no longer than the delay, which begins when the first of them is seen.
"""

from dataclasses import dataclass

MAX_DELAY_MS = 15 * 60_000
"""As Kafka's source has it."""


@dataclass(slots=True)
class BatchDelay:
    """The delay of one query. `offsets` are enough; `delay_s` is the longest wait."""

    offsets: int
    delay_s: float
    _is_first: bool = True
    _since_s: float | None = None

    def holds_back(self, new: int, now_s: float) -> bool:
        """Whether these new offsets have to wait for more; each trigger calls this once."""
        is_first, self._is_first = self._is_first, False
        if self._since_s is None and new:
            self._since_s = now_s
        if is_first or new >= self.offsets or (self._since_s is not None and now_s - self._since_s >= self.delay_s):
            self._since_s = None
            return False
        return new > 0
