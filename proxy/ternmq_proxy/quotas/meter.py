"""Measures what one user, topic, group or client has taken of its quota here."""

from typing import TYPE_CHECKING, Final

from ternmq_common.limits import HOUR_MS, SECOND_MS
from ternmq_common.pacing.bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_common.resources.quotas import Quota

_HOUR_S: Final = HOUR_MS / SECOND_MS


class QuotaMeter:
    """The meter of `name`, whose quota may be the default of its kind. `now` is a monotonic clock in seconds.

    The `wanted_` attributes count what was requested of each rate since the last read, refused or not.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "connections_max",
        "messages_in",
        "messages_out",
        "name",
        "quota",
        "refused",
        "topics",
        "wanted_bytes_in",
        "wanted_bytes_out",
        "wanted_messages_in",
        "wanted_messages_out",
    )

    def __init__(self, quota: "Quota", name: str, now: float, part: float = 1.0) -> None:
        """`part` of each limit is for this proxy."""
        self.quota = quota
        self.name = name
        burst_s = quota.burst_ms / SECOND_MS
        self.messages_in = _make_bucket(quota.messages_in, part, burst_s, now)
        self.bytes_in = _make_bucket(quota.bytes_in, part, burst_s, now)
        self.messages_out = _make_bucket(quota.messages_out, part, burst_s, now)
        self.bytes_out = _make_bucket(quota.bytes_out, part, burst_s, now)
        per_hour = quota.topics_per_hour
        self.topics = None if per_hour is None else TokenBucket(per_hour * part / _HOUR_S, _HOUR_S, now)
        self.connections_max = _partial_count(quota.connections, part)
        self.refused = 0
        self.wanted_messages_in = 0.0
        self.wanted_bytes_in = 0.0
        self.wanted_messages_out = 0.0
        self.wanted_bytes_out = 0.0

    @property
    def quota_title(self) -> str:
        """The quota's kind and the name: `user:alice`."""
        return f"{self.quota.kind.value}:{self.name}"

    def wait_in_s(self, messages: int, size: int, now: float) -> float:
        """Return 0 if the messages may be sent, else the seconds until they may."""
        self.wanted_messages_in += messages
        self.wanted_bytes_in += size
        wait_s = 0.0
        if self.messages_in is not None:
            wait_s = self.messages_in.wait_s(messages, now)
        if self.bytes_in is not None:
            wait_s = max(wait_s, self.bytes_in.wait_s(size, now))
        return wait_s

    def take_in(self, messages: int, size: int, now: float) -> None:
        """Count sent messages."""
        if self.messages_in is not None:
            self.messages_in.take_tokens(messages, now)
        if self.bytes_in is not None:
            self.bytes_in.take_tokens(size, now)

    def wait_out_s(self, now: float) -> float:
        """Return 0 if a message may be delivered, else the seconds until it may."""
        wait_s = 0.0
        if self.messages_out is not None:
            wait_s = self.messages_out.wait_s(1, now)
        if self.bytes_out is not None:
            wait_s = max(wait_s, self.bytes_out.wait_s(1, now))
        return wait_s

    def room_out(self, most: int, now: float) -> int:
        """Return how many messages may be delivered now, at most `most`; their bytes are known afterwards."""
        return most if self.messages_out is None else min(most, int(self.messages_out.token_level(now) + 1e-6))

    def take_out(self, messages: int, size: int, now: float) -> None:
        """Count delivered messages."""
        self.wanted_messages_out += messages
        self.wanted_bytes_out += size
        if self.messages_out is not None:
            self.messages_out.take_tokens(messages, now)
        if self.bytes_out is not None:
            self.bytes_out.take_tokens(size, now)

    def give_back(self, messages: int) -> None:
        """Give back messages that were counted and not delivered."""
        if self.messages_out is not None:
            self.messages_out.give_back(messages)

    def read_demand(self) -> "list[tuple[str, float]]":
        """Return what was requested of each limited rate since this was read last."""
        counts = (
            ("messages_in", self.messages_in, self.wanted_messages_in),
            ("bytes_in", self.bytes_in, self.wanted_bytes_in),
            ("messages_out", self.messages_out, self.wanted_messages_out),
            ("bytes_out", self.bytes_out, self.wanted_bytes_out),
        )
        self.wanted_messages_in = self.wanted_bytes_in = self.wanted_messages_out = self.wanted_bytes_out = 0.0
        return [(limit, count) for limit, bucket, count in counts if bucket is not None]

    def set_shares(self, shares: "Mapping[str, float]", part: float, now: float) -> None:
        """Set this proxy's share of the rates and connections, and the `part` of what is not shared by demand."""
        for limit, bucket in self._rate_buckets():
            bucket.set_rate(shares[limit], now)
        if self.topics is not None and self.quota.topics_per_hour is not None:
            self.topics.set_rate(self.quota.topics_per_hour * part / _HOUR_S, now)
        if self.quota.connections is not None:
            self.connections_max = max(1, int(shares["connections"]))

    def rate_shares(self) -> dict[str, float]:
        """Return this proxy's share of each rate per second, and of the connections."""
        shares = {limit: bucket.rate for limit, bucket in self._rate_buckets()}
        if self.connections_max is not None:
            shares["connections"] = float(self.connections_max)
        return shares

    def taken_rates(self, now: float) -> dict[str, float]:
        """Return how much of each rate per second was taken lately."""
        return {limit: bucket.taken_per_s(now) for limit, bucket in self._rate_buckets()}

    def _rate_buckets(self) -> "list[tuple[str, TokenBucket]]":
        buckets = (
            ("messages_in", self.messages_in),
            ("bytes_in", self.bytes_in),
            ("messages_out", self.messages_out),
            ("bytes_out", self.bytes_out),
        )
        return [(limit, bucket) for limit, bucket in buckets if bucket is not None]

    def is_idle(self, now: float) -> bool:
        """Return whether the meter is as if it were new."""
        buckets = (self.messages_in, self.bytes_in, self.messages_out, self.bytes_out, self.topics)
        return all(bucket is None or bucket.is_full(now) for bucket in buckets)


def _make_bucket(limit: int | None, part: float, burst_s: float, now: float) -> TokenBucket | None:
    return None if limit is None else TokenBucket(limit * part, burst_s, now)


def _partial_count(limit: int | None, part: float) -> int | None:
    return None if limit is None else max(1, int(limit * part))
