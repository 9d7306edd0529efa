"""Translates the resources of a RocketMQ cluster into declarations of `ternmq apply`; pure, changes nothing.

Topics   the most queues that a broker has of it; the message type of 5.x, `mixed` for a topic without one, since
         clients of 4.x send any kind to any topic.
Groups   begin at the earliest message: what producers send here before the group's consumers move would be skipped
         otherwise. A group that is orderly on any broker is FIFO.
Users    with their secrets, unless a secret can't be one here; then the server creates one.
Left     system topics, retry and dead-letter topics (each group gets its own), groups of the brokers' own tools, and
         names that are not allowed here. `notes` tells the operator of each.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from ternmq_common.access.actions import AccessAction
from ternmq_common.access.resources import AccessResource
from ternmq_common.access.users import find_secret_problem, find_user_name_problem, parse_ranges
from ternmq_common.catalog.retry_backoff import DEFAULT_BACKOFF, parse_backoff
from ternmq_common.errors import MessagingError
from ternmq_common.limits import ATTEMPTS_MAX, QUEUES_MAX
from ternmq_common.names import check_group_name, check_topic_name, group_of_derived, is_system_topic
from ternmq_common.printable import cut_text

if TYPE_CHECKING:
    from ternmq_command.migration.apache_cluster import SourceCluster, SourceGroup, SourceTopic, SourceUser

# Those of the brokers' own tools; brokers list them beside the users' groups.
SYSTEM_GROUPS = frozenset(
    {
        *("DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER"),
        *("__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP", "SELF_TEST_C_GROUP"),
    }
)
SYSTEM_GROUP_PREFIXES = ("CID_RMQ_SYS_", "CID_ONS", "CID_SYS_RMQ")
_REPLY_SUFFIX = "_REPLY_TOPIC"
_TYPES = {"NORMAL": "normal", "FIFO": "fifo", "DELAY": "delay", "TRANSACTION": "transaction"}
_PERMISSIONS = {0: "none", 2: "write", 4: "read", 6: "read-write"}
_INHERITED = 1
"""A bit of permissions that only the topic has from which brokers create others."""
Item = dict[str, object]
Named = TypeVar("Named", "SourceTopic", "SourceGroup")


@dataclass(frozen=True, slots=True)
class Translation:
    """`content` is that of a file for `ternmq apply`; `secrets` are those of users, which no file has."""

    content: dict[str, list[Item]]
    notes: Sequence[str]
    secrets: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Patterns (`orders-*`) of which topics and groups are wanted; none of a kind: all. `mixed` topics accept all types
    of messages."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    users: bool = True
    mixed: bool = False


def translate_cluster(source: "SourceCluster", wanted: Wanted) -> Translation:
    """Return what to declare here."""
    notes: list[str] = []
    topics = _find_wanted(
        source.topics, lambda name: is_users_topic(name, source.system_topics, source.brokers), wanted.topics
    )
    groups = _find_wanted(source.groups, is_users_group, wanted.groups)
    content = {
        "topics": [item for same in topics if (item := _translate_topic(same, wanted, notes)) is not None],
        "groups": [item for same in groups if (item := _translate_group(same, notes)) is not None],
    }
    notes += [
        f"group {name} has {source.lags[name]:,} messages that it has not consumed; `ternmq mirror` copies them"
        for name in (str(group["name"]) for group in content["groups"])
        if source.lags.get(name)
    ]
    secrets: dict[str, str] = {}
    if wanted.users and source.users is None:
        notes.append("the cluster lists no users: it has no access control, or that of 4.x, which is a file")
    elif wanted.users and source.users:
        found = [_translate_user(user, notes, secrets) for user in source.users]
        content["users"] = [item for item in found if item is not None]
    return Translation(content, notes, secrets)


def _find_wanted(
    found: "Iterable[Named]", is_users: Callable[[str], bool], patterns: Sequence[str]
) -> list[list["Named"]]:
    """Return those that are wanted, those of one name on all brokers together, sorted by name."""
    ours = [each for each in found if is_users(each.name) and is_wanted(each.name, patterns)]
    by_name = sorted(ours, key=lambda each: each.name)
    return [list(same) for _, same in groupby(by_name, key=lambda each: each.name)]


def is_wanted(name: str, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns has the name, or there are none."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def is_users_topic(name: str, system_topics: frozenset[str], brokers: Sequence[str]) -> bool:
    """Return whether it is a topic of users, which no server has for itself."""
    is_system = name in system_topics or is_system_topic(name) or name in brokers
    return not is_system and not name.endswith(_REPLY_SUFFIX) and group_of_derived(name) is None


def is_users_group(name: str) -> bool:
    """Return whether it is a group of users."""
    return name not in SYSTEM_GROUPS and not name.startswith(SYSTEM_GROUP_PREFIXES)


def _is_allowed(kind: str, name: str, check: Callable[[str], str], notes: list[str]) -> bool:
    try:
        check(name)
    except MessagingError as error:
        notes.append(f"{kind} {cut_text(name)!r} is left out: {error.message}")
        return False
    return True


def _translate_topic(same: "Sequence[SourceTopic]", wanted: Wanted, notes: list[str]) -> Item | None:
    name = same[0].name
    if not _is_allowed("topic", name, check_topic_name, notes):
        return None
    queues = max(topic.queues for topic in same)
    if len({topic.queues for topic in same}) > 1:
        notes.append(f"topic {name} has {queues} queues on a broker and fewer on another; here each gets {queues}")
    if queues > QUEUES_MAX:
        notes.append(f"topic {name} has {queues} queues on a broker; here it gets {QUEUES_MAX}, the most allowed")
    return {
        "name": name,
        "type": "mixed" if wanted.mixed else _TYPES.get(same[0].kind.upper(), "mixed"),
        "queues": min(max(queues, 1), QUEUES_MAX),
        "permission": _PERMISSIONS.get(same[0].permission & ~_INHERITED, "read-write"),
    }


def _translate_group(same: "Sequence[SourceGroup]", notes: list[str]) -> Item | None:
    name = same[0].name
    if not _is_allowed("group", name, check_group_name, notes):
        return None
    if not all(group.is_enabled for group in same):
        notes.append(f"group {name} may not consume there (consumeEnable is false); here it may")
    retries = max(group.retries for group in same)
    item: Item = {
        "name": name,
        "fifo": any(group.is_orderly for group in same),
        # The first delivery is no retry. Negative: the broker's default.
        "max_attempts": min(retries if retries >= 0 else 16, ATTEMPTS_MAX - 1) + 1,
        "consume_from": "earliest",
    }
    backoff = _translate_backoff(name, same[0].backoff, notes)
    return item if backoff is None else item | {"retry_backoff": backoff}


def _translate_backoff(group: str, policy: Mapping[str, object], notes: list[str]) -> str | None:
    """Return the policy as it is written here; None for the default."""
    kind = str(policy.get("type", "CUSTOMIZED")).upper()
    steps, curve = policy.get("customizedRetryPolicy"), policy.get("exponentialRetryPolicy")
    text = None
    if kind == "EXPONENTIAL":
        text = "exponential"
        if isinstance(curve, dict):
            initial, longest, factor = (
                curve.get("initial", 5000),
                curve.get("max", 7_200_000),
                curve.get("multiplier", 2),
            )
            text = f"exponential:{initial}ms,{longest}ms,{factor}"
    elif isinstance(steps, dict) and isinstance(steps.get("next"), list):
        text = "customized:" + ",".join(f"{step}ms" for step in steps["next"])
    if text is None:
        return None
    try:
        backoff = parse_backoff(text)
    except MessagingError as error:
        notes.append(f"group {group} gets the default backoff: {error.message}")
        return None
    return None if backoff == DEFAULT_BACKOFF else str(backoff)


def _translate_user(user: "SourceUser", notes: list[str], secrets: dict[str, str]) -> Item | None:
    if problem := find_user_name_problem(user.name):
        notes.append(f"{problem}: it is left out")
        return None
    if problem := find_secret_problem(user.secret):
        notes.append(f"user {user.name} gets a new secret: {problem}")
    else:
        secrets[user.name] = user.secret
    policies = [item for policy in user.policies for item in _translate_policy(user.name, policy, notes)]
    return {"name": user.name, "super": user.is_super, "enabled": user.is_enabled, "policies": policies}


def _translate_policy(user: str, policy: Mapping[str, object], notes: list[str]) -> "Iterable[Item]":
    entries = policy.get("entries")
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict):
            continue
        resource, decision = str(entry.get("resource")), str(entry.get("decision", "")).lower()
        # `Any` is a right to each action by itself, which is `All` here.
        actions = ",".join("All" if str(each).lower() == "any" else str(each) for each in _listed(entry.get("actions")))
        sources = ",".join(str(each) for each in _listed(entry.get("sourceIps")))
        try:
            item: Item = {
                "deny" if decision == "deny" else "allow": str(AccessResource.parse_resource(resource)),
                "actions": str(AccessAction.parse_actions(actions)),
            }
            parse_ranges(sources)
        except ValueError as error:
            notes.append(f"a policy of user {user} for {cut_text(resource)} is left out: {error}")
            continue
        yield item | ({"from": sources} if sources else {})


def _listed(value: object) -> list[object]:
    """Return the values of a list, or of a text with commas, as brokers of different versions write them."""
    if isinstance(value, str):
        return list(value.split(","))
    return value if isinstance(value, list) else []
