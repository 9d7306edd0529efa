"""How patient a link to a broker is. Times in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTiming:
    """`look_s` is how often calls and silence are looked at; `silence_s`, after how much of it the broker is lost.

    What is large may take longer: `slow_bytes_per_s` is a line of 64 Mbit/s. A stream that lasted for `steady_s` was a
    good one; who welcomes and ends at once is asked less and less, after `first_retry_s` to `longest_retry_s`.
    """

    look_s: float = 0.25
    ping_after_s: float = 1.0
    silence_s: float = 3.0
    connect_timeout_s: float = 3.0
    steady_s: float = 3.0
    close_s: float = 1.0
    slow_bytes_per_s: int = 8 << 20
    first_retry_s: float = 0.1
    longest_retry_s: float = 10.0


LINK_TIMING = LinkTiming()
