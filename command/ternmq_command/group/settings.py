"""The settings of a consumer group: their records, and those of lite groups only."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ternmq_command.terminal.output import iso_or_none
from ternmq_command.terminal.setting_options import settings_record
from ternmq_common.catalog.retry_backoff import DEFAULT_BACKOFF
from ternmq_common.resources.group_settings import GROUP_SETTINGS, LITE_GROUP_SETTINGS

if TYPE_CHECKING:
    from ternmq.admin.groups import Group
    from ternmq_command.terminal.output import Record

LITE_COLUMNS = ("lite_bind", *(each.name for each in LITE_GROUP_SETTINGS))
"""Of `group_record`."""


def lite_option(settings: Mapping[str, Any]) -> str | None:
    """Return a given option that is for lite groups only; None if there is none."""
    return next((each.option for each in LITE_GROUP_SETTINGS if settings.get(each.name) is not None), None)


def group_record(group: "Group") -> dict[str, object]:
    """Return a group and its settings in the form that the options and `ternmq apply` read."""
    return {
        "name": group.name,
        **settings_record(GROUP_SETTINGS, group),
        "lite_bind": group.lite_bind,
        **settings_record(LITE_GROUP_SETTINGS, group),
        "created": iso_or_none(group.created),
    }


def group_row(record: "Record") -> dict[str, object]:
    """Return a group's record for a table: the default backoff's 18 steps shortened, the lite settings in one
    column."""
    is_default = record["retry_backoff"] == str(DEFAULT_BACKOFF)
    shown = {name: value for name, value in record.items() if name not in LITE_COLUMNS}
    return {
        **shown,
        "retry_backoff": "default" if is_default else record["retry_backoff"],
        "lite": _format_lite(record),
    }


def _format_lite(record: "Record") -> str | None:
    """Format the settings of a lite group: `orders,model=exclusive,quota=100`; None for other groups."""
    if record["lite_bind"] is None:
        return None
    words = [str(record["lite_bind"]), f"model={record['lite_model']}", f"quota={record['lite_quota']}"]
    if record["lite_wildcard"]:
        words.append("wildcard")
    if record["lite_reset"] != "none":
        words.append("reset=" + str(record["lite_reset"]).replace(",", "+"))
    return ",".join(words)
