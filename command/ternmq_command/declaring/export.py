"""`ternmq export`: topics, groups and users of a server, as `ternmq apply` reads them."""

from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.failures import CallMissing, Refused
from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import print_json
from ternmq_command.terminal.printing import echo, echo_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq.admin.groups import Group
    from ternmq.admin.topics import Topic
    from ternmq.admin.users import User
    from ternmq_command.calls.admin import AdminClient

LINE_CHARACTERS = 10_000


@click.command()
@endpoint_option
@json_option
def command(endpoint: str, as_json: bool) -> None:
    """Print the topics, groups and users of a server with all their settings, as YAML that `ternmq apply` reads.

    Messages, the progress of groups, their retry and dead letter topics, and which brokers of a cluster a topic is on
    are not part of it, and neither are secrets. Users are left out where one may not see them.

    \b
    Examples:
      ternmq export > topics.yaml
      ternmq export | ternmq apply -f - --endpoint other.example:8081 --dry-run
      ternmq export --json | jq -r '.groups[].name'
    """
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        content = declaring(admin.topics(), admin.groups(), _users(admin))
    if as_json:
        print_json(content)
        return
    import yaml

    echo(f"# What {endpoint} has, for `ternmq apply -f FILE`.")
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=LINE_CHARACTERS)
    echo_lines(text.rstrip("\n"))


def _users(admin: "AdminClient") -> "list[User]":
    try:
        return list(admin.users())
    except CallMissing:
        return []  # of an older server, which has none
    except Refused as refusal:
        if refusal.word not in ("FORBIDDEN", "UNAUTHORIZED"):
            raise
        echo(f"users are left out: {refusal.what}", err=True)
        return []


def declaring(
    topics: "Iterable[Topic]", groups: "Iterable[Group]", users: "Iterable[User]" = ()
) -> dict[str, list[dict[str, object]]]:
    """What a file would say that declares just these."""
    from ternmq_command.declaring.declarations import GROUP_KEYS, TOPIC_KEYS
    from ternmq_command.group.settings import group_record
    from ternmq_command.topic.commands import described_record
    from ternmq_common.retry_backoff import DEFAULT_BACKOFF

    def of_topic(topic: "Topic") -> dict[str, object]:
        record = described_record(topic)
        return {key: record[key] for key in TOPIC_KEYS}

    def of_group(group: "Group") -> dict[str, object]:
        record = group_record(group)
        # `customized` alone stands for the 18 steps of the default; a lock that is not held is one of no time.
        is_default = record["retry_backoff"] == str(DEFAULT_BACKOFF)
        record["retry_backoff"] = "customized" if is_default else record["retry_backoff"]
        record["queue_lock_hold"] = record["queue_lock_hold"] or "0s"
        return {key: record[key] for key in GROUP_KEYS}

    def of_user(user: "User") -> dict[str, object]:
        policies = [
            {
                "deny" if policy.deny else "allow": policy.resource,
                "actions": policy.actions,
                **({"from": list(policy.sources)} if policy.sources else {}),
            }
            for policy in user.policies
        ]
        said: dict[str, object] = {"name": user.name, "super": user.is_super, "enabled": user.enabled}
        return {**said, "policies": policies} if policies else said

    content = {"topics": [of_topic(topic) for topic in topics], "groups": [of_group(group) for group in groups]}
    told = [of_user(user) for user in users]
    return {**content, "users": told} if told else content
