"""What has to change so that a server has what is declared; decided of values, before anything is changed.

What is missing is created. Of what is there, settings that can change without losing a message are updated: more
queues, another permission and replication of a topic, and all settings of a group but whether it is FIFO. The rest is
refused: another type, fewer queues, FIFO or not. Nothing is ever deleted. For users see `user_convergence`, for quotas
`quota_convergence`.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ternmq.admin import groups as group_calls
from ternmq.admin import topics as topic_calls
from ternmq.admin.call import AdminCall
from ternmq.admin.groups import Group
from ternmq.admin.topics import Topic
from ternmq_command.group.settings import GroupSettings, given_record, group_record
from ternmq_command.terminal.output import cell
from ternmq_command.topic.commands import described_record, retention_word

if TYPE_CHECKING:
    from ternmq.admin.words import Flush, Permission, Replication, TopicType
    from ternmq_command.declaring.declarations import Declarations, DeclaredGroup, DeclaredTopic
    from ternmq_command.terminal.output import Record


class Action(enum.Enum):
    """What is to be done with one topic, group, user, policy or quota."""

    CREATE = "create"
    UPDATE = "update"
    REFUSE = "refuse"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One topic or group: the declared settings that differ, as (before, after); before is None where it is created.
    `reason` is why it is refused; `call` is what carries it out."""

    kind: str
    name: str
    action: Action
    settings: Mapping[str, tuple[object, object]]
    reason: str = ""
    call: AdminCall[Any]

    @property
    def is_refused(self) -> bool:
        return self.action is Action.REFUSE

    @property
    def is_needed(self) -> bool:
        return self.action in (Action.CREATE, Action.UPDATE)

    @property
    def text(self) -> str:
        """`update topic orders: queues 4 -> 8`."""
        details = self.reason or self.differences
        return f"{self.action.value} {self.kind} {self.name}" + (f": {details}" if details else "")

    @property
    def differences(self) -> str:
        """`queues 4 -> 8, permission read-write -> read`."""
        if self.action is Action.CREATE:
            return ", ".join(f"{name} {cell(after)}" for name, (_, after) in self.settings.items())
        return ", ".join(f"{name} {cell(before)} -> {cell(after)}" for name, (before, after) in self.settings.items())


def planned(declared: "Declarations", topics: Mapping[str, Topic], groups: Mapping[str, Group]) -> Iterator[Change]:
    """A change for each topic and group, in the order of the file; `topics` and `groups` are what is there, by name."""
    for topic in declared.topics:
        yield topic_change(topic, topics.get(topic.name))
    for group in declared.groups:
        yield group_change(group, groups.get(group.name))


def topic_change(declared: "DeclaredTopic", there: Topic | None) -> Change:
    """What to do with one topic."""
    wanted = {
        "type": declared.type_name,
        "queues": declared.queues,
        "permission": declared.permission,
        "replication": declared.replication,
        "flush": declared.flush,
        "retention": None if declared.retention is None else retention_word(declared.retention),
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    permission = cast("Permission | None", declared.permission)
    replication = cast("Replication | None", declared.replication)
    flush = cast("Flush | None", declared.flush)
    if there is None:
        kind = cast("TopicType", declared.type_name or "normal")
        creation = topic_calls.create(
            declared.name,
            kind,
            declared.queues,
            permission=permission,
            replication=replication,
            flush=flush,
            retention=declared.retention,
        )
        return _creation("topic", declared.name, given, creation)
    before = described_record(there)
    update = topic_calls.update(
        declared.name,
        queues=declared.queues,
        permission=permission,
        replication=replication,
        flush=flush,
        retention=declared.retention,
    )
    return _alteration("topic", given, before, _topic_obstacle(given, before), update)


def _topic_obstacle(given: "Record", before: "Record") -> str:
    """Why the topic can't become so; empty if it can."""
    if given.get("type", before["type"]) != before["type"]:
        return (
            f"its type is {before['type']}, and a topic's type can't change; `ternmq topic delete {before['name']}` "
            "deletes it with its messages"
        )
    queues, wanted = before["queues"], given.get("queues")
    if isinstance(queues, int) and isinstance(wanted, int) and wanted < queues:
        return f"it has {queues} queues on each broker; queues can be added, not taken away"
    return ""


def group_change(declared: "DeclaredGroup", there: Group | None) -> Change:
    """What to do with one group."""
    settings = declared.settings
    if declared.begins_ago and there is not None:
        settings = GroupSettings(**{**settings, "consume_from": None})
    given = given_record(settings)
    if declared.fifo is not None:
        given = {"fifo": declared.fifo, **given}
    if there is None:
        creation = group_calls.create(declared.name, {**settings, "fifo": declared.fifo})
        return _creation("group", declared.name, given, creation)
    before = group_record(there)
    update = group_calls.update(there, {**settings, "fifo": None})
    return _alteration("group", given, before, _group_obstacle(given, before), update)


def _group_obstacle(given: "Record", before: "Record") -> str:
    if given.get("fifo", before["fifo"]) == before["fifo"]:
        return ""
    found = "is FIFO" if before["fifo"] else "is not FIFO"
    flag = "--no-fifo" if before["fifo"] else "--fifo"
    return f"it {found}; `ternmq group update {before['name']} {flag}` changes that while it has taken no message"


def _creation(kind: str, name: str, given: "Record", call: AdminCall[Any]) -> Change:
    settings = {setting: (None, value) for setting, value in given.items()}
    return Change(kind=kind, name=name, action=Action.CREATE, settings=settings, call=call)


def _alteration(kind: str, given: "Record", before: "Record", obstacle: str, call: AdminCall[Any]) -> Change:
    differing = {setting: (before[setting], value) for setting, value in given.items() if before[setting] != value}
    action = Action.REFUSE if obstacle else Action.UPDATE if differing else Action.NOTHING
    name = str(before["name"])
    return Change(kind=kind, name=name, action=action, settings=differing, reason=obstacle, call=call)
