"""The backoffs of clients, of which some are as a server's policy has them."""

from dataclasses import dataclass

from ternmq.times.wire_time import to_seconds
from ternmq_common.pacing.backoff import ExponentialBackoff
from ternmq_protos.v2 import definition_pb2 as pb


@dataclass(frozen=True, slots=True)
class CustomizedBackoff:
    """One delay per attempt; the last one is repeated."""

    delays_s: tuple[float, ...]

    def delay_s(self, attempt: int) -> float:
        return self.delays_s[min(max(attempt, 1), len(self.delays_s)) - 1]


Backoff = ExponentialBackoff | CustomizedBackoff

END_BACKOFF = ExponentialBackoff(initial_s=0.1, max_s=2.0)
SEND_BACKOFF = ExponentialBackoff(initial_s=0.01, max_s=1.0)
# A server that restarts is away for seconds, while another broker may take a message at once.
REACH_BACKOFF = ExponentialBackoff(initial_s=0.01, max_s=1.0)
RECONNECT_BACKOFF = ExponentialBackoff(initial_s=0.2, max_s=5.0)
_MINUTE_S = 60.0
CONSUME_BACKOFF = CustomizedBackoff(
    (1, 5, 10, 30, *(minutes * _MINUTE_S for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)))
)


def read_backoff(policy: pb.RetryPolicy, default: Backoff) -> Backoff:
    """Return the backoff of a server's policy; `default` if the policy has none that can be used."""
    strategy = policy.WhichOneof("strategy")
    if strategy == "customized_backoff" and policy.customized_backoff.next:
        return CustomizedBackoff(tuple(map(to_seconds, policy.customized_backoff.next)))
    if strategy == "exponential_backoff":
        curve = policy.exponential_backoff
        initial_s, max_s = to_seconds(curve.initial), to_seconds(curve.max)
        # The settings of other clients have zeros, which a server may echo: that would repeat without a pause.
        if initial_s > 0 and max_s > 0:
            return ExponentialBackoff(initial_s, max_s, max(curve.multiplier, 1.0))
    return default
