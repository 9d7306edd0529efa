"""Quotas: limits of what one user, topic, group or client may use of the servers, as the registry has them.

Name       whose quota it is; `*` is the default of its kind, for each name that has no quota of its own.
Rates      per second, all proxies together. Bytes are those of requests (in) and of delivered messages (out).
Burst      how many milliseconds' worth may come at once.
Counts     connections at one time, and topics that are created by their use, per hour.
In flight  messages that are delivered by receives and not settled, shown again, or dead letters. Brokers count them by
           group and topic, and know neither users nor clients, so only groups and topics have it.
User       "" is everybody while access control is off, and has the default of users.
"""

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import HOUR_MS, SECOND_MS
from ternmq_common.printable import NAME_BYTES_MAX, find_name_problem
from ternmq_common.resources.resource_settings import FormField, Limit, described, settings_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

DEFAULT_NAME: Final = "*"
DEFAULT_BURST_MS = SECOND_MS
BURST_MS_MIN, BURST_MS_MAX = 100, HOUR_MS
LIMIT_MAX = 10**15
QUOTAS_MAX = 10_000


class QuotaKind(enum.StrEnum):
    """Whose quota it is."""

    USER = "user"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT = "client"


_ALL = frozenset(QuotaKind)
_SENDING = frozenset({QuotaKind.USER, QuotaKind.TOPIC, QuotaKind.CLIENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The quota of one name. None: no limit of that sort."""

    kind: QuotaKind
    name: str
    messages_in: int | None = described(
        None,
        Limit("/s", _SENDING),
        "Messages sent; users, topics, clients.",
        form=FormField("Messages sent, per second"),
    )
    bytes_in: int | None = described(
        None,
        Limit("/s", _SENDING, is_size=True),
        "Bytes of requests that send; users, topics, clients.",
        form=FormField("Bytes sent, per second"),
    )
    messages_out: int | None = described(
        None, Limit("/s", _ALL), "Messages delivered.", form=FormField("Messages delivered, per second")
    )
    bytes_out: int | None = described(
        None,
        Limit("/s", _ALL, is_size=True),
        "Bytes of messages delivered.",
        form=FormField("Bytes delivered, per second"),
    )
    in_flight: int | None = described(
        None,
        Limit("", frozenset({QuotaKind.TOPIC, QuotaKind.GROUP})),
        "Messages received and not finished; topics, groups.",
        form=FormField("Messages in flight"),
    )
    connections: int | None = described(
        None,
        Limit("", frozenset({QuotaKind.USER, QuotaKind.CLIENT})),
        "Connections at one time; users, clients.",
        form=FormField("Connections"),
    )
    topics_per_hour: int | None = described(
        None,
        Limit("/h", frozenset({QuotaKind.USER})),
        "Topics created by their first message; users.",
        form=FormField("Topics created by use, per hour"),
    )
    burst_ms: int = DEFAULT_BURST_MS

    @property
    def title(self) -> str:
        """The kind and name: `user:alice`."""
        return f"{self.kind.value}:{self.name}"

    @property
    def limits(self) -> dict[str, int]:
        """The limits that it sets, by name."""
        values = {name: getattr(self, name) for name in KINDS_OF_LIMITS}
        return {name: value for name, value in values.items() if value is not None}


LIMITS = settings_of(Quota)
KINDS_OF_LIMITS: "Mapping[str, Collection[str]]" = {
    each.name: each.kind.kinds for each in LIMITS if isinstance(each.kind, Limit)
}
"""Each limit, and the kinds that may have it."""


@dataclass(frozen=True, slots=True)
class QuotaSnapshot:
    """All quotas by kind and name. Followers compare snapshots by identity: a change creates another one."""

    quotas: "Mapping[tuple[QuotaKind, str], Quota]" = field(default_factory=dict)


def parse_title(title: str) -> tuple[QuotaKind, str]:
    """Parse kind and name of `user:alice` or `client:*`; BAD_REQUEST with the mistake."""
    word, colon, name = title.partition(":")
    kind = next((kind for kind in QuotaKind if kind.value == word), None)
    if not colon or kind is None:
        kinds = ", ".join(f"{each.value}:NAME" for each in QuotaKind)
        raise _quota_error(f"{title!r} names no quota: {kinds} is needed, * is the default of a kind")
    return kind, check_quota_name(name)


def check_quota_name(name: str) -> str:
    """Check the name of a quota; BAD_REQUEST."""
    problem = find_name_problem(name)
    if not name.strip() or problem or len(name.encode()) > NAME_BYTES_MAX:
        raise _quota_error(f"the name of a quota {problem or f'has 1 to {NAME_BYTES_MAX} bytes'}")
    return name


def check_quota(quota: Quota) -> Quota:
    """Check the quota; BAD_REQUEST with the limit that is not allowed."""
    check_quota_name(quota.name)
    limits = quota.limits
    if not limits:
        raise _quota_error(f"quota {quota.title} sets no limit; give one, or delete the quota")
    for name, value in limits.items():
        if quota.kind not in KINDS_OF_LIMITS[name]:
            kinds = ", ".join(sorted(KINDS_OF_LIMITS[name]))
            raise _quota_error(f"a {quota.kind.value} has no {name}; it is a limit of: {kinds}")
        if not 1 <= value <= LIMIT_MAX:
            raise _quota_error(f"{name} is {value}; 1 to {LIMIT_MAX} is allowed")
    if not BURST_MS_MIN <= quota.burst_ms <= BURST_MS_MAX:
        raise _quota_error(f"the burst is {quota.burst_ms} ms; {BURST_MS_MIN} to {BURST_MS_MAX} is allowed")
    return quota


def _quota_error(text: str) -> MessagingError:
    return MessagingError(ErrorCode.BAD_REQUEST, text)
