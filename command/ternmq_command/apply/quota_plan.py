"""Plans the changes that give a server the declared quotas. Only limits declared as `none` are removed."""

from typing import TYPE_CHECKING

from ternmq.admin import quotas as quota_calls
from ternmq.admin.quotas import Quota
from ternmq_command.apply.plan import Action, Change
from ternmq_command.quota.limits import merged, shown
from ternmq_common.units import rendered_duration

if TYPE_CHECKING:
    from ternmq_command.apply.declared_quotas import DeclaredQuota


def quota_change(declared: "DeclaredQuota", there: Quota | None) -> Change:
    """Return the change of one quota; `there` is the existing one."""
    limits = merged(there, declared.limits, declared.burst)
    before: dict[str, object] = {limit: shown(limit, getattr(there, limit, None)) for limit in quota_calls.LIMITS}
    wanted: dict[str, object] = {limit: shown(limit, value or None) for limit, value in declared.limits.items()}
    if there is not None:
        before["burst"] = rendered_duration(round(there.burst.total_seconds() * 1000))
    if declared.burst is not None:
        wanted["burst"] = rendered_duration(round(declared.burst.total_seconds() * 1000))
    differing = {name: (before.get(name), value) for name, value in wanted.items() if before.get(name) != value}
    obstacle = ""
    if not any(limits.get(limit) for limit in quota_calls.LIMITS):
        obstacle = f"it would have no limit; `ternmq quota remove {declared.name}` removes a quota"
    action = (
        Action.REFUSE
        if obstacle
        else Action.CREATE
        if there is None
        else Action.UPDATE
        if differing
        else Action.NOTHING
    )
    return Change(
        kind="quota",
        name=declared.name,
        action=action,
        settings=differing,
        reason=obstacle,
        call=quota_calls.put(declared.kind.value, declared.quota_name, limits),
    )
