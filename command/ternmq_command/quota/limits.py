"""Merges limits of quotas, and formats quotas."""

from typing import TYPE_CHECKING, cast

from ternmq_command.terminal.setting_options import settings_record
from ternmq_common.resources.quotas import KINDS_OF_LIMITS, LIMITS
from ternmq_common.units import render_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from ternmq.admin.quotas import Quota, QuotaLimits

NO_LIMIT = 0
"""The value of `none`; a limit is at least 1."""


def merge_limits(there: "Quota | None", limits: "Mapping[str, int]", burst: "timedelta | None") -> "QuotaLimits":
    """Return the limits of the quota after setting these; others stay, and NO_LIMIT removes one."""
    result: dict[str, object] = {}
    for limit in KINDS_OF_LIMITS:
        value = limits.get(limit, getattr(there, limit, None))
        result[limit] = None if value == NO_LIMIT else value
    result["burst"] = burst or (there.burst if there is not None else None)
    return cast("QuotaLimits", result)


def quota_record(quota: "Quota") -> dict[str, object]:
    """Return the record of a quota."""
    return {
        "quota": f"{quota.kind}:{quota.name}",
        **settings_record(LIMITS, quota),
        "burst": render_duration(round(quota.burst.total_seconds() * 1000)),
    }
