"""Reads the quotas that a file declares; a limit that it leaves out stays as it is, and `none` removes one.


- {quota: "user:alice", messages_in: 1000/s, bytes_in: 10MiB/s, burst: 2s}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from ternmq_command.apply.declared_values import Item, quote_value, read_burst
from ternmq_command.quota.limits import NO_LIMIT
from ternmq_command.terminal.failures import WrongUsage
from ternmq_common.errors import MessagingError
from ternmq_common.resources.quotas import KINDS_OF_LIMITS, LIMITS, Quota, QuotaKind, check_quota, parse_title
from ternmq_common.resources.resource_settings import Setting

QUOTA_KEYS = ("quota", *KINDS_OF_LIMITS, "burst")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredQuota:
    """A declared quota; `limits` are those in the file, with NO_LIMIT for `none`."""

    kind: QuotaKind
    quota_name: str
    limits: Mapping[str, int]
    burst: timedelta | None

    @property
    def name(self) -> str:
        """The quota's title, such as `user:alice`."""
        return f"{self.kind.value}:{self.quota_name}"


def declared_quota(item: Item, where: str) -> DeclaredQuota:
    """Read a quota, whose keys were checked before; raises WrongUsage."""
    title = item.get("quota")
    if not isinstance(title, str):
        raise WrongUsage(f"{where}: quota must be a kind and a name, as in user:alice, not {quote_value(title)}")
    limits = {
        each.name: _read_limit(each, item[each.name], where) for each in LIMITS if item.get(each.name) is not None
    }
    try:
        kind, name = parse_title(title)
        if some := {limit: value for limit, value in limits.items() if value != NO_LIMIT}:
            check_quota(Quota(kind=kind, name=name, **some))
    except MessagingError as error:
        raise WrongUsage(f"{where}: {error.message}") from None
    return DeclaredQuota(kind=kind, quota_name=name, limits=limits, burst=read_burst(item, where))


def _read_limit(limit: Setting, value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise WrongUsage(f"{where}: {limit.name} must be a number or text, not {quote_value(value)}")
    try:
        return int(limit.kind.parse_text(str(value)))
    except ValueError as error:
        raise WrongUsage(f"{where}: {limit.name} {quote_value(value)}: {error}") from None
