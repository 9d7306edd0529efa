"""Plans the changes that give a server the declared quotas. Only limits declared as `none` are removed."""

from typing import TYPE_CHECKING

from ternmq.admin import quotas as quota_calls
from ternmq.admin.quotas import Quota
from ternmq_command.apply.plan import ChangeAction, PlannedChange
from ternmq_command.quota.limits import merge_limits
from ternmq_command.terminal.setting_options import given_texts, settings_record
from ternmq_common.resources.quotas import LIMITS
from ternmq_common.units import render_duration

if TYPE_CHECKING:
    from ternmq_command.apply.declared_quotas import DeclaredQuota


def quota_change(declared: "DeclaredQuota", there: Quota | None) -> PlannedChange:
    """Return the change of one quota; `there` is the existing one."""
    limits = merge_limits(there, declared.limits, declared.burst)
    before: dict[str, object] = {} if there is None else {**settings_record(LIMITS, there)}
    wanted = given_texts(LIMITS, declared.limits)
    if there is not None:
        before["burst"] = render_duration(round(there.burst.total_seconds() * 1000))
    if declared.burst is not None:
        wanted["burst"] = render_duration(round(declared.burst.total_seconds() * 1000))
    differing = {name: (before.get(name), value) for name, value in wanted.items() if before.get(name) != value}
    obstacle = ""
    if not any(limits.get(each.name) for each in LIMITS):
        obstacle = f"it would have no limit; `ternmq quota remove {declared.name}` removes a quota"
    action = (
        ChangeAction.REFUSE
        if obstacle
        else ChangeAction.CREATE
        if there is None
        else ChangeAction.UPDATE
        if differing
        else ChangeAction.NOTHING
    )
    return PlannedChange(
        kind="quota",
        name=declared.name,
        action=action,
        settings=differing,
        reason=obstacle,
        call=quota_calls.put_quota(declared.kind.value, declared.quota_name, **limits),
    )
