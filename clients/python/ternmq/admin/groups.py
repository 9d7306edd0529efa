"""Consumer groups and their progress, and their admin calls."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypedDict, Unpack, get_args

from ternmq.admin.given_settings import copy_given, read_given, write_given
from ternmq.admin.requests.call import AdminCall, read_nothing
from ternmq.admin.requests.checks import (
    INT64_MAX,
    check_choice,
    check_flag,
    check_moment,
    check_text,
    check_texts,
    check_whole,
    check_wholes,
)
from ternmq.admin.requests.words import CLIENT_TYPES, LiteModel, LiteReset, read_moment, word_of
from ternmq.times.wire_time import to_nanos, to_timestamp
from ternmq_common.resources.group_settings import DEFAULT_ASSIGNMENT, GROUP_SETTINGS, LITE_GROUP_SETTINGS
from ternmq_protos.admin_v1 import admin_pb2

LITE_NAMES = ("lite_bind", *(each.name for each in LITE_GROUP_SETTINGS))
Target = Literal["earliest", "latest"] | datetime | int
"""Where a group may be moved to: an end of its queues, a time, or an offset."""


class GroupSettings(TypedDict, total=False):
    """Settings of a consumer group. One that is left out or None is the server's default for a new group, and unchanged
    for an existing one."""

    fifo: bool | None
    """Deliver the messages of a message group in order; can't change once the group has received a message."""

    max_attempts: int | None
    """Deliveries of a message, the first included."""

    retry_backoff: str | None
    """The backoff after failed deliveries: `customized:1s,5s,10s`, or `exponential:5s,2h,2` (first, longest,
    factor)."""

    consume_from: str | datetime | None
    """Where the group begins in a queue that it never read: `auto`, `earliest`, `latest`, or a time."""

    assignment: str | None
    """How queues are assigned to members that pull: `averagely`, `consistent-hash` and so on."""

    queue_lock_hold: timedelta | None
    """Above 0, a queue has one pulling reader at a time, which loses the queue lock when silent for so long."""

    priority_factor: int | None
    """How many of 100 receives from a PRIORITY topic begin with the highest priority."""

    remoting_pop: bool | None
    """Members by the remoting protocol receive messages, and do not keep offsets."""

    lite_bind: str | None
    """The topic of type lite whose lite topics its clients subscribe; it makes the group a lite group, and can't
    change. The other settings of lite groups need it in a new group."""

    lite_model: LiteModel | None
    """Whether clients of a lite topic share its messages (`shared`), or the last to subscribe has it alone
    (`exclusive`)."""

    lite_quota: int | None
    """How many lite topics a client may subscribe."""

    lite_wildcard: bool | None
    """Each client subscribes all lite topics of the topic, also those to come."""

    lite_reset: Iterable[LiteReset] | None
    """When the group's progress in a lite topic is forgotten: another client takes it over (`taken`), its subscriber
    drops it (`unsubscribed`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A consumer group; the settings are those of `GroupSettings`. Those of lite groups are None in any other group."""

    name: str
    fifo: bool
    max_attempts: int
    retry_backoff: str
    consume_from: str | datetime
    assignment: str
    queue_lock_hold: timedelta
    priority_factor: int
    created: datetime | None
    remoting_pop: bool = False
    lite_bind: str | None = None
    lite_model: LiteModel | None = None
    lite_quota: int | None = None
    lite_wildcard: bool | None = None
    lite_reset: tuple[LiteReset, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReader:
    """The member of a group that pulls from a queue: since when, and when it did last."""

    client_id: str
    since: datetime | None
    last_pull: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLock:
    """The member of a group that has locked a queue: since when, and until when if it asks for it no more."""

    client_id: str
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProgress:
    """The progress of a group in one message queue.

    All messages below `committed` are finished; all below `cursor` were delivered at least once, or wait in their
    message group, and `in_flight` of these are neither acknowledged nor given up. The queue ends at `max_offset`.
    `oldest_age` is that of the oldest unfinished message; None if all are finished. `lost`: messages that retention or
    a purge removed before the group had read them. `reader` is None where no member pulls, as in a group that
    receives: there any member gets messages of any queue. `lock` is None where no member has locked the queue.
    """

    topic: str
    broker: str
    queue_id: int
    committed: int
    cursor: int
    in_flight: int
    max_offset: int
    oldest_age: timedelta | None
    lost: int = 0
    reader: QueueReader | None = None
    lock: QueueLock | None = None

    @property
    def lag(self) -> int:
        """Messages that are neither acknowledged nor given up."""
        return self.max_offset - self.cursor + self.in_flight


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A connected client of a group, and its subscriptions: topic to filter expression.

    `protocol` is `grpc` or `remoting`, `since` when the server `proxy` heard of it first. `address` is empty if the
    user may not list clients; `language` and `version` are empty if the client did not tell them.
    """

    client_id: str
    client_type: str
    subscriptions: Mapping[str, str]
    protocol: str = ""
    address: str = ""
    language: str = ""
    version: str = ""
    since: datetime | None = None
    proxy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group. `inconsistencies` are sentences: where members subscribe differently, so that some do not get messages.
    `silent`: proxies that did not answer, whose members are missing here."""

    group: Group
    progress: tuple[QueueProgress, ...]
    members: tuple[GroupMember, ...]
    client_ids: tuple[str, ...]
    inconsistencies: tuple[str, ...]
    silent: tuple[str, ...] = ()

    @property
    def lag(self) -> int:
        """The lag of all queues."""
        return sum(progress.lag for progress in self.progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMove:
    """A group's move in one queue; `before` is None if it never read the queue."""

    broker: str
    queue_id: int
    before: int | None
    after: int


def create_group(name: str, **settings: Unpack[GroupSettings]) -> AdminCall[bool]:
    """Create a consumer group; False if it exists with the same settings, `BadRequest` if with others."""
    group = admin_pb2.Group(name=check_text("name", name))
    _set_given(group, settings)
    request = admin_pb2.CreateGroupRequest(group=group)
    return AdminCall(request, lambda answer: answer.created)


def list_groups(*, search: str = "") -> AdminCall[list[Group]]:
    """List all consumer groups by name; with `search` only those whose name contains it, in any case."""
    request = admin_pb2.ListGroupsRequest(search=check_text("search", search))
    return AdminCall(request, _read_list)


def describe_group(name: str) -> AdminCall[GroupDescription]:
    """Describe a group: its settings, its progress in each queue, and its connected members."""
    request = admin_pb2.DescribeGroupRequest(name=check_text("name", name))
    return AdminCall(request, _read_description)


def update_group(group: Group, settings: GroupSettings) -> AdminCall[Group]:
    """Update a group; the value is the changed group. The server takes all settings, so `group` has the current
    ones."""
    asked = _to_proto(group)
    _set_given(asked, settings)
    request = admin_pb2.UpdateGroupRequest(group=asked)
    return AdminCall(request, lambda answer: _read_group(answer.group))


def delete_group(name: str, *, with_dead_letters: bool = False) -> AdminCall[None]:
    """Delete a group and its progress. Its dead letters stay for a group that is created with this name, unless
    they are deleted too."""
    letters = check_flag("with_dead_letters", with_dead_letters)
    request = admin_pb2.DeleteGroupRequest(name=check_text("name", name), with_dead_letters=letters)
    return AdminCall(request, read_nothing)


def reset_offsets(
    group: str,
    topic: str,
    to: Target | None = None,
    *,
    shift: int | None = None,
    queue_ids: Iterable[int] = (),
    broker: str = "",
    dry_run: bool = False,
) -> AdminCall[list[OffsetMove]]:
    """Move a group in a topic: to an end of its queues, a time, an offset, or by so many messages (`shift`).

    It moves in all queues unless some are named, on all brokers unless one is. `to="latest"` skips the backlog.
    Claims in these queues end; if all queues move, messages that wait for a retry are dropped too. With `dry_run`
    the moves are returned, and nothing changes.
    """
    if (to is None) == (shift is None):
        raise TypeError("give one of to and shift")
    request = admin_pb2.ResetOffsetsRequest(
        group=check_text("group", group),
        topic=check_text("topic", topic),
        queue_ids=check_wholes("queue_ids", queue_ids),
        broker=check_text("broker", broker),
        dry_run=check_flag("dry_run", dry_run),
    )
    if shift is not None:
        request.shift = check_whole("shift", shift, least=-INT64_MAX, most=INT64_MAX)
    elif to is not None:
        _set_target(request, to)
    return _reset_call(request)


def skip_message(
    group: str, topic: str, queue_id: int, queue_offset: int, *, broker: str = ""
) -> AdminCall[list[OffsetMove]]:
    """Finish one message for a group: a FIFO group stops at one that can't be read, and continues then."""
    request = admin_pb2.ResetOffsetsRequest(
        group=check_text("group", group),
        topic=check_text("topic", topic),
        queue_ids=[check_whole("queue_id", queue_id)],
        skip=check_whole("queue_offset", queue_offset, most=INT64_MAX),
        broker=check_text("broker", broker),
    )
    return _reset_call(request)


def _reset_call(request: admin_pb2.ResetOffsetsRequest) -> AdminCall[list[OffsetMove]]:
    return AdminCall(request, _read_moves)


def _set_target(request: admin_pb2.ResetOffsetsRequest, to: object) -> None:
    if to == "earliest":
        request.earliest = True
    elif to == "latest":
        request.latest = True
    elif isinstance(to, datetime):
        request.time.CopyFrom(to_timestamp(to_nanos(check_moment("to", to))))
    elif isinstance(to, int) and not isinstance(to, bool):
        request.offset = check_whole("to", to, most=INT64_MAX)
    else:
        raise TypeError(f"to is 'earliest', 'latest', a datetime or an offset, which {to!r} is not")


def _set_given(group: admin_pb2.Group, settings: GroupSettings) -> None:
    """Set what was given, and nothing else."""
    plain = {name: value for name, value in settings.items() if name not in LITE_NAMES}
    write_given(group, "a group has no setting", GROUP_SETTINGS, plain, others=LITE_NAMES)
    _set_lite(group, settings)


def _set_lite(group: admin_pb2.Group, settings: GroupSettings) -> None:
    if (bind := settings.get("lite_bind")) is not None:
        group.lite.topic = check_text("lite_bind", bind)
    if (model := settings.get("lite_model")) is not None:
        group.lite.exclusive = check_choice("lite_model", model, get_args(LiteModel)) == "exclusive"
    if (quota := settings.get("lite_quota")) is not None:
        group.lite.quota = check_whole("lite_quota", quota, least=1)
    if (wildcard := settings.get("lite_wildcard")) is not None:
        group.lite.wildcard = check_flag("lite_wildcard", wildcard)
    if (reset := settings.get("lite_reset")) is not None:
        resets = [
            check_choice("each of lite_reset", reason, get_args(LiteReset))
            for reason in check_texts("lite_reset", reset)
        ]
        group.lite.resets_when_taken = "taken" in resets
        group.lite.resets_when_unsubscribed = "unsubscribed" in resets


def _to_proto(group: Group) -> admin_pb2.Group:
    asked = admin_pb2.Group(name=group.name)
    copy_given(asked, GROUP_SETTINGS, group)
    lite = GroupSettings(
        lite_bind=group.lite_bind,
        lite_model=group.lite_model,
        lite_quota=group.lite_quota,
        lite_wildcard=group.lite_wildcard,
        lite_reset=group.lite_reset,
    )
    _set_lite(asked, lite)
    return asked


def _read_list(answer: admin_pb2.ListGroupsResponse) -> list[Group]:
    return sorted(map(_read_group, answer.groups), key=lambda group: group.name)


def _read_description(answer: admin_pb2.DescribeGroupResponse) -> GroupDescription:
    return GroupDescription(
        group=_read_group(answer.group),
        progress=tuple(map(_read_progress, answer.progress)),
        members=tuple(map(_read_member, answer.members)),
        client_ids=tuple(answer.client_ids),
        inconsistencies=tuple(answer.inconsistencies),
        silent=tuple(answer.silent),
    )


def _read_group(group: admin_pb2.Group) -> Group:
    lite = group.lite if group.HasField("lite") else None
    settings = read_given(group, GROUP_SETTINGS)
    return Group(
        name=group.name,
        created=read_moment(group.created),
        **{**settings, "assignment": settings["assignment"] or DEFAULT_ASSIGNMENT},
        lite_bind=None if lite is None else lite.topic,
        lite_model=None if lite is None else "exclusive" if lite.exclusive else "shared",
        lite_quota=None if lite is None else lite.quota,
        lite_wildcard=None if lite is None else lite.wildcard,
        lite_reset=None if lite is None else _read_resets(lite),
    )


def _read_resets(lite: admin_pb2.LiteSettings) -> tuple[LiteReset, ...]:
    reasons: dict[LiteReset, bool] = {"taken": lite.resets_when_taken, "unsubscribed": lite.resets_when_unsubscribed}
    return tuple(reason for reason, is_on in reasons.items() if is_on)


def _read_progress(progress: admin_pb2.Progress) -> QueueProgress:
    return QueueProgress(
        topic=progress.topic,
        broker=progress.broker,
        queue_id=progress.queue_id,
        committed=progress.committed,
        cursor=progress.cursor,
        in_flight=progress.in_flight,
        max_offset=progress.max_offset,
        oldest_age=progress.oldest_age.ToTimedelta() if progress.HasField("oldest_age") else None,
        lost=progress.lost,
        reader=_read_reader(progress.reader) if progress.HasField("reader") else None,
        lock=_read_lock(progress.lock) if progress.HasField("lock") else None,
    )


def _read_reader(reader: admin_pb2.QueueReader) -> QueueReader:
    return QueueReader(
        client_id=reader.client_id, since=read_moment(reader.since), last_pull=read_moment(reader.last_pull)
    )


def _read_lock(lock: admin_pb2.QueueLock) -> QueueLock:
    return QueueLock(client_id=lock.client_id, since=read_moment(lock.since), until=read_moment(lock.until))


def _read_member(member: admin_pb2.Member) -> GroupMember:
    return GroupMember(
        client_id=member.client_id,
        client_type=word_of(member.client_type, CLIENT_TYPES),
        subscriptions=dict(sorted(member.subscriptions.items())),
        protocol=member.protocol,
        address=member.address,
        language=member.language,
        version=member.version,
        since=read_moment(member.since),
        proxy=member.proxy,
    )


def _read_moves(answer: admin_pb2.ResetOffsetsResponse) -> list[OffsetMove]:
    moves = [
        OffsetMove(
            broker=move.broker,
            queue_id=move.queue_id,
            before=None if move.before < 0 else move.before,
            after=move.after,
        )
        for move in answer.moves
    ]
    return sorted(moves, key=lambda move: (move.broker, move.queue_id))
