"""`ternmq export`: prints a server's topics, groups, users and quotas as a file that `ternmq apply` reads."""

from typing import TYPE_CHECKING, TypeVar

import click

from ternmq_command.terminal.failures import CallMissing, CallRefused
from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import print_json
from ternmq_command.terminal.printing import echo, echo_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ternmq.admin.groups import Group
    from ternmq.admin.quotas import Quota
    from ternmq.admin.topics import Topic
    from ternmq.admin.users import User

LINE_CHARACTERS = 10_000
T = TypeVar("T")


@click.command()
@endpoint_option
@json_option
def command(endpoint: str, as_json: bool) -> None:
    """Print the topics, groups, users and quotas of a server, with all settings, as YAML that `ternmq apply` reads.

    The output does not contain messages, the progress of groups, their retry and dead letter topics, the brokers of
    topics, or secrets. Users and quotas are left out if the caller lacks the right to list them.

    \b
    Examples:
      ternmq export > topics.yaml
      ternmq export | ternmq apply -f - --endpoint other.example:8081 --dry-run
      ternmq export --json | jq -r '.groups[].name'
    """
    from ternmq.admin import groups as group_calls
    from ternmq.admin import quotas as quota_calls
    from ternmq.admin import topics as topic_calls
    from ternmq.admin import users as user_calls
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        users = admin.send_pages(user_calls.list_users)
        content = file_content(
            admin.send_call(topic_calls.list_topics()),
            admin.send_call(group_calls.list_groups()),
            _list_if_allowed("users", lambda: (each for page in users for each in page.users)),
            _list_if_allowed("quotas", lambda: admin.send_call(quota_calls.list_quotas()).quotas),
        )
    if as_json:
        print_json(content)
        return
    import yaml

    echo(f"# Exported from {endpoint}, for `ternmq apply -f FILE`.")
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=LINE_CHARACTERS)
    echo_lines(text.rstrip("\n"))


def _list_if_allowed(what: str, ask: "Callable[[], Iterable[T]]") -> "list[T]":
    try:
        return list(ask())
    except CallMissing:
        return []  # an older server, which has none
    except CallRefused as refusal:
        if refusal.word not in ("FORBIDDEN", "UNAUTHORIZED"):
            raise
        echo(f"{what} are left out: {refusal.what}", err=True)
        return []


def file_content(
    topics: "list[Topic]",
    groups: "list[Group]",
    users: "Iterable[User]" = (),
    quotas: "Iterable[Quota]" = (),
) -> dict[str, list[dict[str, object]]]:
    """Return the content of a file that declares these."""
    from ternmq_command.apply.declarations import GROUP_KEYS, TOPIC_KEYS
    from ternmq_command.group.settings import LITE_COLUMNS, group_record
    from ternmq_command.quota.limits import quota_record
    from ternmq_command.topic.settings import full_topic_record
    from ternmq_common.catalog.retry_backoff import DEFAULT_BACKOFF
    from ternmq_common.resources.topic_settings import TOPIC_SETTINGS

    def of_topic(topic: "Topic") -> dict[str, object]:
        record = full_topic_record(topic)
        # Usual values, which older versions of `apply` do not know.
        usual = {each.name: each.kind.absent for each in TOPIC_SETTINGS if each.kind.absent}
        left_out = [key for key, value in usual.items() if record[key] in (value, None)]
        return {key: record[key] for key in TOPIC_KEYS if key not in left_out}

    def of_group(group: "Group") -> dict[str, object]:
        record = group_record(group)
        # `customized` alone means the 18 steps of the default; without a queue lock the time is 0.
        is_default = record["retry_backoff"] == str(DEFAULT_BACKOFF)
        record["retry_backoff"] = "customized" if is_default else record["retry_backoff"]
        record["queue_lock_hold"] = record["queue_lock_hold"] or "0s"
        left_out = LITE_COLUMNS if record["lite_bind"] is None else ()
        return {key: record[key] for key in GROUP_KEYS if key not in left_out}

    def of_user(user: "User") -> dict[str, object]:
        policies = [
            {
                "deny" if policy.deny else "allow": policy.resource,
                "actions": policy.actions,
                **({"from": list(policy.sources)} if policy.sources else {}),
            }
            for policy in user.policies
        ]
        fields: dict[str, object] = {"name": user.name, "super": user.is_super, "enabled": user.enabled}
        return {**fields, "policies": policies} if policies else fields

    content = {"topics": [of_topic(topic) for topic in topics], "groups": [of_group(group) for group in groups]}
    of_quotas = [{key: value for key, value in quota_record(quota).items() if value is not None} for quota in quotas]
    more = {"users": [of_user(user) for user in users], "quotas": of_quotas}
    return content | {section: items for section, items in more.items() if items}
