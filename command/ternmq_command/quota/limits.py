"""Limits of quotas as people write them: `1000/s`, `10MiB/s`, `10/h`, `none`."""

from typing import TYPE_CHECKING

import click

from ternmq_common.units import SIZE_UNITS, in_largest_unit, parsed_size, rendered_duration

if TYPE_CHECKING:
    from ternmq.admin.quotas import Quota

    LimitType = click.ParamType[int]
else:  # older releases of click can't be subscripted
    LimitType = click.ParamType

NO_LIMIT = 0
"""What `none` stands for; a limit is 1 at least."""
UNITS = {"messages_in": "/s", "bytes_in": "/s", "messages_out": "/s", "bytes_out": "/s", "topics_per_hour": "/h"}
_BINARY = {unit: size for unit, size in SIZE_UNITS.items() if "i" in unit or unit == "B"}


class Limit(LimitType):
    """So many, with the unit of time or without it; `none` is no limit."""

    def __init__(self, limit: str) -> None:
        self._unit = UNITS.get(limit, "")
        self._is_size = limit.startswith("bytes")
        self.name = f"{'SIZE' if self._is_size else 'N'}{self._unit}"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = value.strip()
        if text.lower() == "none":
            return NO_LIMIT
        number = text.removesuffix(self._unit)
        try:
            found = parsed_size(number) if self._is_size else int(number)
        except ValueError:
            found = 0
        if found < 1:
            example = "10MiB/s" if self._is_size else f"1000{self._unit}"
            self.fail(f"{value!r}: a limit like {example}, or none, is needed", param, ctx)
        return found


def shown(limit: str, value: int | None) -> str | None:
    """The limit as `Limit` reads it; None if there is none."""
    if value is None:
        return None
    number = in_largest_unit(value, _BINARY) if limit.startswith("bytes") else str(value)
    return f"{number}{UNITS.get(limit, '')}"


def quota_record(quota: "Quota") -> dict[str, object]:
    """The quota for people and programs."""
    from ternmq.admin.quotas import LIMITS

    return {
        "quota": f"{quota.kind}:{quota.name}",
        **{limit: shown(limit, getattr(quota, limit)) for limit in LIMITS},
        "burst": rendered_duration(round(quota.burst.total_seconds() * 1000)),
    }
