"""What has to change so that a server has what is declared; decided of values, before anything is changed.

What is missing is created. Of what is there, settings that can change without losing a message are updated: more queues
and another permission of a topic, and all settings of a group but whether it is FIFO. The rest is refused: another
type, fewer queues, FIFO or not. Nothing is ever deleted.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq.command.admin import PERMISSIONS, TYPES
from ternmq.command.group_settings import GroupSettings, group_record, set_given
from ternmq.command.output import cell
from ternmq.command.topic import described_record
from ternmq_protos.admin_v1 import admin_pb2

if TYPE_CHECKING:
    from ternmq.command.admin import Request
    from ternmq.command.declarations import Declarations, DeclaredGroup, DeclaredTopic
    from ternmq.command.output import Record


class Action(enum.Enum):
    """What is to be done with one topic or group."""

    CREATE = "create"
    UPDATE = "update"
    REFUSE = "refuse"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One topic or group: the declared settings that differ, as (before, after); before is None where it is created.
    `reason` is why it is refused; `request` is
    what carries it out."""

    kind: str
    name: str
    action: Action
    settings: Mapping[str, tuple[object, object]]
    reason: str = ""
    request: "Request"

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


def planned(
    declared: "Declarations", topics: Mapping[str, admin_pb2.Topic], groups: Mapping[str, admin_pb2.Group]
) -> Iterator[Change]:
    """A change for each declaration, in the order of the file; `topics` and `groups` are what is there, by name."""
    for topic in declared.topics:
        yield topic_change(topic, topics.get(topic.name))
    for group in declared.groups:
        yield group_change(group, groups.get(group.name))


def topic_change(declared: "DeclaredTopic", there: admin_pb2.Topic | None) -> Change:
    """What to do with one topic."""
    wanted = {"type": declared.type_name, "queues": declared.queues, "permission": declared.permission}
    given = {name: value for name, value in wanted.items() if value is not None}
    if there is None:
        topic = admin_pb2.Topic(
            name=declared.name,
            type=TYPES[declared.type_name or "normal"],
            queues=declared.queues or 0,
            permission=PERMISSIONS[declared.permission or "read-write"],
        )
        return _creation("topic", declared.name, given, admin_pb2.CreateTopicRequest(topic=topic))
    before = described_record(there)
    request = admin_pb2.UpdateTopicRequest(name=declared.name, queues=declared.queues)
    if declared.permission is not None:
        request.permission = PERMISSIONS[declared.permission]
    return _alteration("topic", given, before, _topic_obstacle(given, before), request)


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


def group_change(declared: "DeclaredGroup", there: admin_pb2.Group | None) -> Change:
    """What to do with one group."""
    settings = declared.settings
    if declared.begins_ago and there is not None:
        settings = GroupSettings(**{**settings, "consume_from": None})
    asked = admin_pb2.Group(name=declared.name, fifo=bool(declared.fifo))
    set_given(asked, settings)
    named = {name for name, value in settings.items() if value is not None}
    if declared.fifo is not None:
        named.add("fifo")
    given = {name: value for name, value in group_record(asked).items() if name in named}
    if there is None:
        return _creation("group", declared.name, given, admin_pb2.CreateGroupRequest(group=asked))
    before = group_record(there)
    request = admin_pb2.UpdateGroupRequest(group=there)
    set_given(request.group, settings)
    return _alteration("group", given, before, _group_obstacle(given, before), request)


def _group_obstacle(given: "Record", before: "Record") -> str:
    if given.get("fifo", before["fifo"]) == before["fifo"]:
        return ""
    found = "is FIFO" if before["fifo"] else "is not FIFO"
    flag = "--no-fifo" if before["fifo"] else "--fifo"
    return f"it {found}; `ternmq group update {before['name']} {flag}` changes that while it has taken no message"


def _creation(kind: str, name: str, given: "Record", request: "Request") -> Change:
    settings = {setting: (None, value) for setting, value in given.items()}
    return Change(kind=kind, name=name, action=Action.CREATE, settings=settings, request=request)


def _alteration(kind: str, given: "Record", before: "Record", obstacle: str, request: "Request") -> Change:
    differing = {setting: (before[setting], value) for setting, value in given.items() if before[setting] != value}
    action = Action.REFUSE if obstacle else Action.UPDATE if differing else Action.NOTHING
    name = str(before["name"])
    return Change(kind=kind, name=name, action=action, settings=differing, reason=obstacle, request=request)
