"""Parses the topics, groups, users and quotas that a file declares, and checks them as far as possible without a
server.

A setting that the file leaves out stays as it is on the server, and gets the server's default when one is created.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ternmq_command.apply.declared_quotas import QUOTA_KEYS, DeclaredQuota, declared_quota
from ternmq_command.apply.declared_users import USER_KEYS, DeclaredUser, declared_user
from ternmq_command.apply.declared_values import (
    quote_value,
    read_choice,
    read_settings,
)
from ternmq_command.group.settings import LITE_COLUMNS, lite_option
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.time_parsing import is_relative_time
from ternmq_command.topic.settings import TYPE_NAMES
from ternmq_common.errors import MessagingError
from ternmq_common.names import check_group_name, check_topic_name, group_of_derived
from ternmq_common.printable import cut_text
from ternmq_common.resources.group_settings import GROUP_SETTINGS, LITE_GROUP_SETTINGS
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS
from ternmq_common.settings import did_you_mean

TOPIC_KEYS = ("name", "type", *(each.name for each in TOPIC_SETTINGS))
GROUP_KEYS = ("name", *(each.name for each in GROUP_SETTINGS), *LITE_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTopic:
    """A declared topic; settings that the file leaves out are None. They are those of `ternmq.admin`, and queues."""

    name: str
    type_name: str | None
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredGroup:
    """A declared group; settings that the file leaves out are None.

    `begins_ago` is true if `consume_from` was relative (`2h`): it means another time whenever the file is read, so it
    applies to a new group, and not to an existing one.
    """

    name: str
    lite_bind: str | None
    settings: Mapping[str, Any]
    begins_ago: bool


@dataclass(frozen=True, slots=True)
class Declarations:
    """All declarations of a file, in its order; names are unique."""

    topics: Sequence[DeclaredTopic]
    groups: Sequence[DeclaredGroup]
    users: Sequence[DeclaredUser]
    quotas: Sequence[DeclaredQuota]


def parse_declarations(content: object, *, source: str) -> Declarations:
    """Return the declarations of a parsed file; raises WrongUsage for invalid ones."""
    sections = _checked_table({} if content is None else content, ("topics", "groups", "users", "quotas"), where=source)
    topics = [_parse_topic(item, where) for item, where in _section_items(sections, "topics", TOPIC_KEYS, source)]
    groups = [_parse_group(item, where) for item, where in _section_items(sections, "groups", GROUP_KEYS, source)]
    users = [declared_user(item, where) for item, where in _section_items(sections, "users", USER_KEYS, source)]
    quotas = [declared_quota(item, where) for item, where in _section_items(sections, "quotas", QUOTA_KEYS, source)]
    _check_unique("topics", [topic.name for topic in topics], source)
    _check_unique("groups", [group.name for group in groups], source)
    _check_unique("users", [user.name for user in users], source)
    _check_unique("quotas", [quota.name for quota in quotas], source)
    return Declarations(topics, groups, users, quotas)


def _section_items(
    sections: dict[str, object], section: str, known: tuple[str, ...], source: str
) -> list[tuple[dict[str, object], str]]:
    where = f"{source}: {section}"
    items = enumerate(_checked_list(sections.get(section), where=where))
    return [(_checked_table(item, known, where=f"{where}[{i}]"), f"{where}[{i}]") for i, item in items]


def _parse_topic(item: dict[str, object], where: str) -> DeclaredTopic:
    name = _parse_name(item, where, check_topic_name)
    if group_of_derived(name) is not None:
        raise WrongUsage(f"{where}: topic {name!r} belongs to its consumer group, and can't be declared")
    return DeclaredTopic(
        name=name,
        type_name=read_choice(item, "type", where, TYPE_NAMES),
        settings=read_settings(item, TOPIC_SETTINGS, where),
    )


def _parse_group(item: dict[str, object], where: str) -> DeclaredGroup:
    name, begins = _parse_name(item, where, check_group_name), item.get("consume_from")
    settings = read_settings(item, [*GROUP_SETTINGS, *LITE_GROUP_SETTINGS], where)
    lite_bind = None if item.get("lite_bind") is None else _parse_name(item, where, check_topic_name, key="lite_bind")
    if lite_bind is None and lite_option(settings):
        raise WrongUsage(f"{where}: lite_ settings are for lite groups: lite_bind is needed, with their topic")
    return DeclaredGroup(
        name=name,
        lite_bind=lite_bind,
        settings=settings,
        begins_ago=isinstance(begins, str) and is_relative_time(begins),
    )


def _parse_name(item: dict[str, object], where: str, checked: Callable[[str], str], *, key: str = "name") -> str:
    name = item.get(key)
    if not isinstance(name, str) or not name:
        raise WrongUsage(f"{where}: a {key} is needed, as text")
    try:
        return checked(name)
    except MessagingError as error:
        raise WrongUsage(f"{where}: {error.message}") from None


def _check_unique(section: str, names: Sequence[str], source: str) -> None:
    places: dict[str, int] = {}
    for i, name in enumerate(names):
        first = places.setdefault(name, i)
        if first != i:
            raise WrongUsage(f"{source}: {section}[{first}] and {section}[{i}] both declare {name!r}")


def _checked_table(content: object, known: tuple[str, ...], *, where: str) -> dict[str, object]:
    if not isinstance(content, dict):
        raise WrongUsage(f"{where}: a table with {', '.join(known)} is needed")
    for key in content:
        if key not in known:
            raise WrongUsage(f"{where}: unknown key {quote_value(key)}{did_you_mean(cut_text(str(key)), known)}")
    return content


def _checked_list(content: object, *, where: str) -> list[object]:
    if content is None:
        return []
    if not isinstance(content, list):
        raise WrongUsage(f"{where}: a list is needed")
    return content
