"""Parses and formats limits of quotas: `1000/s`, `10MiB/s`, `10/h`, `none`."""

from typing import TYPE_CHECKING, cast

import click

from ternmq_common.units import SIZE_UNITS, parse_size, render_duration, render_in_largest_unit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from ternmq.admin.quotas import Quota, QuotaLimits

    LimitType = click.ParamType[int]
else:  # older releases of click can't be subscripted
    LimitType = click.ParamType

NO_LIMIT = 0
"""The value of `none`; a limit is at least 1."""
UNITS = {"messages_in": "/s", "bytes_in": "/s", "messages_out": "/s", "bytes_out": "/s", "topics_per_hour": "/h"}
_BINARY = {unit: size for unit, size in SIZE_UNITS.items() if "i" in unit or unit == "B"}


class LimitParam(LimitType):
    """A limit, with its unit of time or without it; `none` is no limit."""

    def __init__(self, limit: str) -> None:
        self._limit = limit
        self.name = f"{'SIZE' if limit.startswith('bytes') else 'N'}{UNITS.get(limit, '')}"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_limit(self._limit, value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def parse_limit(limit: str, text: str) -> int:
    """Parse a limit, NO_LIMIT for `none`; raises ValueError."""
    unit, is_size = UNITS.get(limit, ""), limit.startswith("bytes")
    if text.strip().lower() == "none":
        return NO_LIMIT
    number = text.strip().removesuffix(unit)
    try:
        found = parse_size(number) if is_size else int(number)
    except ValueError:
        found = 0
    if found < 1:
        example = "10MiB/s" if is_size else f"1000{unit}"
        raise ValueError(f"a limit like {example}, or none, is needed")
    return found


def merge_limits(there: "Quota | None", limits: "Mapping[str, int]", burst: "timedelta | None") -> "QuotaLimits":
    """Return the limits of the quota after setting these; others stay, and NO_LIMIT removes one."""
    from ternmq.admin.quotas import LIMITS

    result: dict[str, object] = {}
    for limit in LIMITS:
        value = limits.get(limit, getattr(there, limit, None))
        result[limit] = None if value == NO_LIMIT else value
    result["burst"] = burst or (there.burst if there is not None else None)
    return cast("QuotaLimits", result)


def format_limit(limit: str, value: int | None) -> str | None:
    """Format a limit as `LimitParam` parses it; None if there is none."""
    if value is None:
        return None
    number = render_in_largest_unit(value, _BINARY) if limit.startswith("bytes") else str(value)
    return f"{number}{UNITS.get(limit, '')}"


def quota_record(quota: "Quota") -> dict[str, object]:
    """Return the record of a quota."""
    from ternmq.admin.quotas import LIMITS

    return {
        "quota": f"{quota.kind}:{quota.name}",
        **{limit: format_limit(limit, getattr(quota, limit)) for limit in LIMITS},
        "burst": render_duration(round(quota.burst.total_seconds() * 1000)),
    }
