"""Timeouts of a link to a broker, in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTiming:
    """The timing of a link. Calls and silence are checked every `look_s`; after `silence_s` of silence the broker is
    lost.

    Large pieces may take longer: `slow_bytes_per_s` is a line of 64 Mbit/s. A stream that lasted for `steady_s` resets
    the backoff, which grows from `first_retry_s` to `longest_retry_s` for a peer that accepts and ends at once.
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
