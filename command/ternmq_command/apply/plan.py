"""Plans the changes that give a server what a file declares; pure, before anything is changed.

Missing topics and groups are created. Settings of existing ones that can change without losing a message are updated:
more queues, another permission and replication of a topic; all settings of a group except FIFO and the topic of a lite
group. Other changes are refused: another type, fewer queues, FIFO or not, and settings that the type of a topic does
not allow. Nothing is ever deleted. `user_plan` plans users, `quota_plan` quotas.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ternmq.admin import groups as group_calls
from ternmq.admin import topics as topic_calls
from ternmq.admin.groups import Group
from ternmq.admin.requests.call import AdminCall
from ternmq.admin.topics import Topic
from ternmq_command.group.settings import group_record
from ternmq_command.terminal.output import format_cell
from ternmq_command.terminal.setting_options import given_texts
from ternmq_command.topic.settings import LITE, LITE_SETTINGS, full_topic_record
from ternmq_common.resources.group_settings import GROUP_SETTINGS, LITE_GROUP_SETTINGS
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS

if TYPE_CHECKING:
    from ternmq.admin.requests.words import TopicType
    from ternmq_command.apply.declarations import Declarations, DeclaredGroup, DeclaredTopic
    from ternmq_command.terminal.output import Record


DEFAULT_TYPE = "normal"


class ChangeAction(enum.Enum):
    """The planned change of one topic, group, user, policy or quota."""

    CREATE = "create"
    UPDATE = "update"
    REFUSE = "refuse"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """The change of one topic, group, user, policy or quota.

    `settings` are the declared settings that differ, as (before, after); before is None for a new one. `reason` is why
    the change is refused; `call` carries it out.
    """

    kind: str
    name: str
    action: ChangeAction
    settings: Mapping[str, tuple[object, object]]
    reason: str = ""
    call: AdminCall[Any]

    @property
    def is_refused(self) -> bool:
        return self.action is ChangeAction.REFUSE

    @property
    def is_needed(self) -> bool:
        return self.action in (ChangeAction.CREATE, ChangeAction.UPDATE)

    @property
    def text(self) -> str:
        """The change as a line: `update topic orders: queues 4 -> 8`."""
        details = self.reason or self.differences
        return f"{self.action.value} {self.kind} {self.name}" + (f": {details}" if details else "")

    @property
    def differences(self) -> str:
        """The differing settings: `queues 4 -> 8, permission read-write -> read`."""
        if self.action is ChangeAction.CREATE:
            return ", ".join(f"{name} {format_cell(after)}" for name, (_, after) in self.settings.items())
        return ", ".join(
            f"{name} {format_cell(before)} -> {format_cell(after)}" for name, (before, after) in self.settings.items()
        )


def plan_changes(
    declared: "Declarations", topics: Mapping[str, Topic], groups: Mapping[str, Group]
) -> Iterator[PlannedChange]:
    """Yield a change for each topic and group, in the order of the file; `topics` and `groups` are the existing
    ones."""
    for topic in declared.topics:
        yield topic_change(topic, topics.get(topic.name))
    types = {topic.name: topic.type for topic in topics.values()}
    types |= {topic.name: topic.type_name or types.get(topic.name, DEFAULT_TYPE) for topic in declared.topics}
    for group in declared.groups:
        yield group_change(group, groups.get(group.name), types)


def topic_change(declared: "DeclaredTopic", there: Topic | None) -> PlannedChange:
    """Return the change of one topic; `there` is the existing one."""
    given: dict[str, object] = {} if declared.type_name is None else {"type": declared.type_name}
    given |= given_texts(TOPIC_SETTINGS, declared.settings)
    if there is None:
        kind = cast("TopicType", declared.type_name or DEFAULT_TYPE)
        creation = topic_calls.create_topic(declared.name, kind, **declared.settings)
        return _plan_creation("topic", declared.name, given, creation, _lite_obstacle(declared, kind))
    before = full_topic_record(there)
    # The topic has none of these, as declared.
    unset = [each.name for each in LITE_SETTINGS if there.type != LITE and not declared.settings.get(each.name)]
    given = {name: value for name, value in given.items() if name not in unset}
    update = topic_calls.update_topic(declared.name, **declared.settings)
    obstacle = _topic_obstacle(given, before) or _lite_obstacle(declared, there.type)
    return _plan_update("topic", given, before, obstacle, update)


def _topic_obstacle(given: "Record", before: "Record") -> str:
    """Return why the topic can't have these settings; empty if it can."""
    if given.get("type", before["type"]) != before["type"]:
        return (
            f"its type is {before['type']}, and a topic's type can't change; `ternmq topic delete {before['name']}` "
            "deletes it with its messages"
        )
    queues, wanted = before["queues"], given.get("queues")
    if isinstance(queues, int) and isinstance(wanted, int) and wanted < queues:
        return f"it has {queues} queues on each broker; queues can be added, not removed"
    return ""


def _lite_obstacle(declared: "DeclaredTopic", kind: str) -> str:
    names = [each.name for each in LITE_SETTINGS if kind != LITE and declared.settings.get(each.name)]
    return f"its type is {kind}, and only topics of type {LITE} have a {names[0]}" if names else ""


def group_change(
    declared: "DeclaredGroup", there: Group | None, types: Mapping[str, str] | None = None
) -> PlannedChange:
    """Return the change of one group; `types` are those of all topics, None to let the server check the binding."""
    settings = {**declared.settings}
    if declared.begins_ago and there is not None:
        settings["consume_from"] = None
    given = given_texts([*GROUP_SETTINGS, *LITE_GROUP_SETTINGS], settings)
    if declared.lite_bind is not None:
        given = {"lite_bind": declared.lite_bind, **given}
    if there is None:
        creation = group_calls.create_group(declared.name, lite_bind=declared.lite_bind, **settings)
        return _plan_creation("group", declared.name, given, creation, _binding_obstacle(declared.lite_bind, types))
    before = group_record(there)
    update = group_calls.update_group(there, cast("group_calls.GroupSettings", {**settings, "fifo": None}))
    return _plan_update("group", given, before, _group_obstacle(given, before), update)


def _binding_obstacle(lite_bind: str | None, types: Mapping[str, str] | None) -> str:
    """Return why no lite group can be bound to the topic; empty if one can."""
    if lite_bind is None or types is None or types.get(lite_bind) == LITE:
        return ""
    found = f"has type {types[lite_bind]}" if lite_bind in types else "does not exist"
    return f"a lite group is bound to a topic of type {LITE}, and {lite_bind} {found}"


def _group_obstacle(given: "Record", before: "Record") -> str:
    if given.get("lite_bind", before["lite_bind"]) != before["lite_bind"]:
        found = "is no lite group" if before["lite_bind"] is None else f"is a lite group of topic {before['lite_bind']}"
        return f"it {found}, and that can't change; `ternmq group delete {before['name']}` deletes it with its progress"
    if given.get("fifo", before["fifo"]) == before["fifo"]:
        return ""
    found = "is FIFO" if before["fifo"] else "is not FIFO"
    flag = "--no-fifo" if before["fifo"] else "--fifo"
    return f"it {found}; `ternmq group update {before['name']} {flag}` changes that before its first message"


def _plan_creation(kind: str, name: str, given: "Record", call: AdminCall[Any], obstacle: str) -> PlannedChange:
    settings = {setting: (None, value) for setting, value in given.items()}
    action = ChangeAction.REFUSE if obstacle else ChangeAction.CREATE
    return PlannedChange(kind=kind, name=name, action=action, settings=settings, reason=obstacle, call=call)


def _plan_update(kind: str, given: "Record", before: "Record", obstacle: str, call: AdminCall[Any]) -> PlannedChange:
    differing = {setting: (before[setting], value) for setting, value in given.items() if before[setting] != value}
    action = ChangeAction.REFUSE if obstacle else ChangeAction.UPDATE if differing else ChangeAction.NOTHING
    name = str(before["name"])
    return PlannedChange(kind=kind, name=name, action=action, settings=differing, reason=obstacle, call=call)
