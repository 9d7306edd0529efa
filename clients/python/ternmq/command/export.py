"""`ternmq export`: topics and groups of a server, as `ternmq apply` reads them."""

from typing import TYPE_CHECKING

import click

from ternmq.command.options import endpoint_option, json_option
from ternmq.command.output import print_json
from ternmq.command.printing import echo, echo_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_protos.admin_v1 import admin_pb2

LINE_CHARACTERS = 10_000


@click.command()
@endpoint_option
@json_option
def command(endpoint: str, as_json: bool) -> None:
    """Print the topics and groups of a server with all their settings, as YAML that `ternmq apply` reads.

    Messages, the progress of groups, their retry and dead letter topics, and which brokers of a cluster a topic is on
    are not part of it.

    \b
    Examples:
      ternmq export > topics.yaml
      ternmq export | ternmq apply -f - --endpoint other.example:8081 --dry-run
      ternmq export --json | jq -r '.groups[].name'
    """
    from ternmq.command.admin import AdminClient

    with AdminClient(endpoint) as admin:
        content = declaring(admin.topics(), admin.groups())
    if as_json:
        print_json(content)
        return
    import yaml

    echo(f"# The topics and groups of {endpoint}, for `ternmq apply -f FILE`.")
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=LINE_CHARACTERS)
    echo_lines(text.rstrip("\n"))


def declaring(
    topics: "Iterable[admin_pb2.Topic]", groups: "Iterable[admin_pb2.Group]"
) -> dict[str, list[dict[str, object]]]:
    """What a file would say that declares just these."""
    from ternmq.command.declarations import GROUP_KEYS, TOPIC_KEYS
    from ternmq.command.group_settings import group_record
    from ternmq.command.topic import described_record
    from ternmq_common.retry_backoff import DEFAULT_BACKOFF

    def of_topic(topic: "admin_pb2.Topic") -> dict[str, object]:
        record = described_record(topic)
        return {key: record[key] for key in TOPIC_KEYS}

    def of_group(group: "admin_pb2.Group") -> dict[str, object]:
        record = group_record(group)
        # `customized` alone stands for the 18 steps of the default; a lock that is not held is one of no time.
        is_default = record["retry_backoff"] == str(DEFAULT_BACKOFF)
        record["retry_backoff"] = "customized" if is_default else record["retry_backoff"]
        record["queue_lock_hold"] = record["queue_lock_hold"] or "0s"
        return {key: record[key] for key in GROUP_KEYS}

    return {"topics": [of_topic(topic) for topic in topics], "groups": [of_group(group) for group in groups]}
