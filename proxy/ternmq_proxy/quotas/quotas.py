"""Enforces the quotas of clients at this proxy.

In          a request over a quota is refused whole, with TOO_MANY_REQUESTS and the time of a retry.
Out         a receive gets fewer messages, or waits; it is never refused.
In flight   is counted by brokers (`consumption/in_flight.py` there), as an acknowledgement may come by any proxy. They
            get the limit with each receive.
Cost        without quotas one attribute is read: `limits_in`, `limits_out`, `limits_in_flight`.
"""

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.resources.quotas import KINDS_OF_LIMITS, Quota, QuotaKind, QuotaSnapshot
from ternmq_common.retry_hint import retry_hint
from ternmq_proxy.quotas.meter import QuotaMeter
from ternmq_proxy.quotas.meters import METERS_MAX, QuotaMeters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_IN: Final = ("messages_in", "bytes_in")
_OUT: Final = ("messages_out", "bytes_out")


class ClientQuotas:
    """The quotas of one process; `now` is a monotonic clock in seconds. `refused` counts by the kind of the quota."""

    def __init__(self, now: "Callable[[], float]" = time.monotonic, *, names_max: int = METERS_MAX) -> None:
        self.now = now
        self.snapshot = QuotaSnapshot()
        self.limits_in = False
        self.limits_out = False
        self.limits_in_flight = False
        self.refused: Counter[str] = Counter()
        self._users = QuotaMeters({}, names_max)
        self._topics = QuotaMeters({}, names_max)
        self._groups = QuotaMeters({}, names_max)
        self._clients = QuotaMeters({}, names_max)
        self._user_connections: Counter[str] = Counter()
        self._client_connections: Counter[str] = Counter()

    def follow_snapshot(self, snapshot: QuotaSnapshot) -> None:
        """Enforce these quotas from now on."""
        if snapshot is self.snapshot:
            return
        self.snapshot = snapshot
        by_kind: dict[QuotaKind, dict[str, Quota]] = {kind: {} for kind in QuotaKind}
        for (kind, name), quota in snapshot.quotas.items():
            by_kind[kind][name] = quota
        self._users = self._users.with_quotas(by_kind[QuotaKind.USER])
        self._topics = self._topics.with_quotas(by_kind[QuotaKind.TOPIC])
        self._groups = self._groups.with_quotas(by_kind[QuotaKind.GROUP])
        self._clients = self._clients.with_quotas(by_kind[QuotaKind.CLIENT])
        limits = {limit for quota in snapshot.quotas.values() for limit in quota.limits}
        self.limits_in = not limits.isdisjoint(_IN)
        self.limits_out = not limits.isdisjoint(_OUT)
        self.limits_in_flight = "in_flight" in limits

    def set_part(self, part: float) -> None:
        """Set this proxy's part of each limit until its demand is known."""
        for meters in (self._users, self._topics, self._groups, self._clients):
            meters.part = part

    def list_meters(self) -> "Iterator[QuotaMeter]":
        """Yield all meters."""
        for meters in (self._users, self._topics, self._groups, self._clients):
            yield from meters.list_meters()

    # --- in

    def admit_messages(self, user: str, topic: str, client_id: str, messages: int, size: int) -> None:
        """Admit all messages of a request of `size` bytes. Raises TOO_MANY_REQUESTS."""
        now = self.now()
        by_user = self._users.find_meter(user, now)
        by_topic = self._topics.find_meter(topic, now)
        by_client = self._clients.find_meter(client_id, now)
        longest_s, worst = 0.0, None
        for meter in (by_user, by_topic, by_client):
            if meter is not None:
                wait_s = meter.wait_in_s(messages, size, now)
                if wait_s > longest_s:
                    longest_s, worst = wait_s, meter
        if worst is not None:
            raise self._too_many(worst, "sends more than it may", longest_s)
        for meter in (by_user, by_topic, by_client):
            if meter is not None:
                meter.take_in(messages, size, now)

    def admit_topic(self, user: str) -> None:
        """Admit the creation of a topic by the user's message. Raises TOO_MANY_REQUESTS."""
        now = self.now()
        meter = self._users.find_meter(user, now)
        if meter is None or meter.topics is None:
            return
        wait_s = meter.topics.wait_s(1, now)
        if wait_s:
            raise self._too_many(meter, "makes more topics by their use than it may", wait_s)
        meter.topics.take_tokens(1, now)

    # --- out

    def receiver_meters(self, user: str, topic: str, group: str, client_id: str) -> list[QuotaMeter]:
        """Return the meters that count what the receiver gets."""
        now = self.now()
        found = (
            self._users.find_meter(user, now),
            self._topics.find_meter(topic, now),
            self._groups.find_meter(group, now),
            self._clients.find_meter(client_id, now),
        )
        return [meter for meter in found if meter is not None]

    def in_flight_quotas(self, topic: str, group: str) -> dict[QuotaKind, Quota]:
        """Return the quotas that limit messages in flight there, by kind."""
        found = {QuotaKind.TOPIC: self._topics.quota_of(topic), QuotaKind.GROUP: self._groups.quota_of(group)}
        return {kind: quota for kind, quota in found.items() if quota is not None and quota.in_flight is not None}

    # --- connections

    def add_connection(self, user: str, client_id: str) -> None:
        """Count a connection of the user and client. Raises TOO_MANY_REQUESTS, without counting, if they have too
        many."""
        now = self.now()
        for meters, counts, name in (
            (self._users, self._user_connections, user),
            (self._clients, self._client_connections, client_id),
        ):
            meter = meters.find_meter(name, now) if meters.quotas else None
            if meter is not None and meter.connections_max is not None and counts[name] >= meter.connections_max:
                raise self._too_many(meter, f"has {counts[name]} connections here, all that it may", 1.0)
        self._user_connections[user] += 1
        self._client_connections[client_id] += 1

    def remove_connection(self, user: str, client_id: str) -> None:
        """Stop counting a connection of the user and client."""
        for counts, name in ((self._user_connections, user), (self._client_connections, client_id)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]

    def connection_count(self, meter: QuotaMeter) -> int:
        """Return how many connections the meter's name has."""
        kind = meter.quota.kind
        if kind not in KINDS_OF_LIMITS["connections"]:
            return 0
        return (self._user_connections if kind is QuotaKind.USER else self._client_connections).get(meter.name, 0)

    def _too_many(self, meter: QuotaMeter, what: str, wait_s: float) -> MessagingError:
        meter.refused += 1
        self.refused[meter.quota.kind.value] += 1
        whose = f"{meter.quota.kind.value} {meter.name!r}" if meter.name else "everybody without a user's name"
        return MessagingError(
            ErrorCode.TOO_MANY_REQUESTS,
            f"{whose} {what} by quota {meter.quota.title} (`ternmq quota list`); {retry_hint(wait_s)}",
        )
