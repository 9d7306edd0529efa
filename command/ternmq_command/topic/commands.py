"""`ternmq topic`: create, list, describe, update, export, import, purge, delete."""

from datetime import timedelta
from typing import TYPE_CHECKING, cast

import click

from ternmq_command.server.broker_admin import PERMISSION_NAMES
from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.name_suggestions import suggesting_names
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import DurationParam, endpoint_option, json_option
from ternmq_command.terminal.output import (
    drop_empty_columns,
    format_record,
    format_table,
    iso_or_none,
    print_deleted,
    print_json,
    print_records,
)
from ternmq_command.terminal.printing import echo, echo_lines
from ternmq_command.terminal.template import Template, check_one_form, format_option
from ternmq_command.topic import export as topic_export
from ternmq_command.topic import importing as topic_importing
from ternmq_command.topic import purge as topic_purge
from ternmq_common.units import render_duration

if TYPE_CHECKING:
    from ternmq.admin.topics import QueueState, Topic, TopicDescription
    from ternmq.admin.words import Flush, Permission, Replication, TopicType
    from ternmq_command.apply.declarations import DeclaredTopic
    from ternmq_command.apply.plan import PlannedChange
    from ternmq_command.calls.admin import AdminClient

# The keys of `ternmq.admin.words.TYPES`, which needs the protocol's code to be imported.
TYPE_NAMES = ("normal", "fifo", "delay", "transaction", "priority", "lite", "mixed")
LITE = "lite"
GROUPS_SHOWN = 10
# The keys of REPLICATIONS there.
REPLICATION_NAMES = ("sync", "async", "shard")
# The keys of FLUSHES there.
FLUSH_NAMES = ("sync", "async", "broker")

replication_option = click.option(
    "--replication",
    type=click.Choice(REPLICATION_NAMES),
    help="Answer sends to brokers with replicas when all in sync have the message (sync), or the leader (async).  "
    "[default: shard, as each of them does]",
)

flush_option = click.option(
    "--flush",
    type=click.Choice(FLUSH_NAMES),
    help="Answer sends when the broker's disk has the message (sync), or before that (async).  "
    "[default: broker, as each of them does]",
)
retention_option = click.option(
    "--retention",
    type=DurationParam(),
    help="Keep its messages this long, unless the broker removes them earlier; 0s: as long as the broker keeps them.",
)

lite_ttl_option = click.option(
    "--lite-ttl",
    type=DurationParam(),
    help="For a topic of type lite: drop lite topics to which nothing was sent for this long, at least 15m; 0s: drop "
    "them when the broker has removed its messages.",
)


@click.group(cls=NearestGroup)
def command() -> None:
    """Create, list, describe, update, export, import, purge and delete topics.

    \b
    Examples:
      ternmq topic create orders --type fifo --queues 16
      ternmq topic list
      ternmq topic describe orders --json
      ternmq topic update orders --queues 32
      ternmq topic export orders orders.jsonl.gz
      ternmq topic purge orders --dry-run
    """


command.add_command(topic_export.command, "export")
command.add_command(topic_importing.command, "import")
command.add_command(topic_purge.command, "purge")


@command.command()
@click.argument("name")
@click.option(
    "--type",
    "type_name",
    type=click.Choice(TYPE_NAMES, case_sensitive=False),
    default="normal",
    show_default=True,
    help="What its messages must be: in order within a message group (fifo), timed (delay), part of a transaction, "
    "delivered by priority, or anything else (normal); mixed accepts normal, fifo, delay and transaction.",
)
@click.option("--queues", type=click.IntRange(min=1), help="Message queues on each broker.  [default: the server's]")
@click.option("--brokers", default="", metavar="A,B", help="Brokers of a cluster that have it.  [default: all]")
@replication_option
@flush_option
@retention_option
@lite_ttl_option
@endpoint_option
@json_option
def create(
    name: str,
    type_name: "TopicType",
    queues: int | None,
    brokers: str,
    replication: "Replication | None",
    flush: "Flush | None",
    retention: timedelta | None,
    lite_ttl: timedelta | None,
    endpoint: str,
    as_json: bool,
) -> None:
    """Create topic NAME; succeeds if it exists with the same settings.

    \b
    Examples:
      ternmq topic create orders
      ternmq topic create orders --type fifo --queues 16
      ternmq topic create reminders --type delay --endpoint broker.example:8081
      ternmq topic create payments --type transaction
      ternmq topic create alarms --type priority
      ternmq topic create chats --type lite --lite-ttl 1d
      ternmq topic create audit --brokers broker-0,broker-1
      ternmq topic create clicks --replication async --flush async --retention 1d
    """
    from ternmq.admin import topics as topic_calls
    from ternmq_command.apply.declarations import DeclaredTopic
    from ternmq_command.apply.update_suggestions import suggesting_update
    from ternmq_command.calls.admin import AdminClient

    places = [place for broker in brokers.split(",") if (place := broker.strip())]
    asked = DeclaredTopic(
        name=name,
        type_name=type_name,
        queues=queues,
        permission=None,
        replication=replication,
        flush=flush,
        retention=retention,
        lite_ttl=lite_ttl,
    )
    with (
        AdminClient(endpoint) as admin,
        suggesting_update(lambda: _find_difference(admin, asked, is_more_asked=bool(places))),
    ):
        created = admin.send_call(
            topic_calls.create_topic(
                name,
                type_name,
                queues,
                brokers=places,
                replication=replication,
                flush=flush,
                retention=retention,
                lite_ttl=lite_ttl,
            )
        )
    if as_json:
        print_json({"name": name, "created": created})
    else:
        echo(f"topic {name} {'created' if created else 'exists already, with these settings'}")


def _find_difference(admin: "AdminClient", asked: "DeclaredTopic", *, is_more_asked: bool) -> "PlannedChange | None":
    """Return the change that would give the existing topic the requested settings.

    None if there is no such topic, or if only its brokers differ, which a declaration does not have.
    """
    from ternmq.admin import topics as topic_calls
    from ternmq_command.apply.plan import topic_change

    there = next((topic for topic in admin.send_call(topic_calls.list_all()) if topic.name == asked.name), None)
    if there is None:
        return None
    change = topic_change(asked, there)
    return None if is_more_asked and not (change.is_needed or change.is_refused) else change


@command.command(name="list")
@click.option("--search", default="", metavar="TEXT", help="Those with this in their name, in any case.")
@endpoint_option
@json_option
@format_option("name", "type", "queues", "created", "lite_ttl")
def list_topics(endpoint: str, search: str, as_json: bool, template: Template | None) -> None:
    """List all topics.

    \b
    Examples:
      ternmq topic list
      ternmq topic list --search orders
      ternmq topic list --json | jq -r '.[].name'
      ternmq topic list --format '{name} {queues}'
    """
    from ternmq.admin import topics as topic_calls

    check_one_form(template, as_json=as_json)
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        topics = admin.send_call(topic_calls.list_all(search=search))
    records = [topic_record(topic) for topic in topics]
    if template is not None:
        template.write_records(records)
        return
    shown = records if as_json else drop_empty_columns(records, "lite_ttl")
    print_records(shown, as_json=as_json, nothing="no topics" + (f" with {search!r} in their name" if search else ""))


@command.command()
@click.argument("name")
@endpoint_option
@json_option
def describe(name: str, endpoint: str, as_json: bool) -> None:
    """Show topic NAME, what each of its queues holds (bytes of long queues are estimated), and its brokers.

    \b
    Examples:
      ternmq topic describe orders
      ternmq topic describe orders --json | jq '[.message_queues[].messages] | add'
    """
    from ternmq.admin import topics as topic_calls
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin, suggesting_names(admin, "topic", name):
        answer = admin.send_call(topic_calls.describe_topic(name, contents=True))
    record = {
        **full_topic_record(answer.topic),
        "identity": answer.topic.identity,
        "messages": answer.messages,
        "lite_topics": answer.lite_topics,
        **_content_record(answer),
    }
    queues = [_queue_record(queue) for queue in answer.queues]
    if answer.silent_brokers:
        echo(f"no answer from {', '.join(answer.silent_brokers)}", err=True)
    if as_json:
        print_json({**record, "message_queues": queues})
        return
    if len(answer.groups) > GROUPS_SHOWN:
        record["groups"] = [*answer.groups[:GROUPS_SHOWN], f"and {len(answer.groups) - GROUPS_SHOWN:,} more"]
    echo_lines(format_record(*drop_empty_columns([record], "lite_ttl", "lite_topics")))
    if queues:
        echo_lines("\n" + format_table(queues))


def _content_record(answer: "TopicDescription") -> dict[str, object]:
    """Return the rates and groups of a topic; empty from a server that does not report them."""
    if answer.messages_in is None or answer.messages_out is None:
        return {}
    return {
        "in_per_s": round(answer.messages_in, 1),
        "out_per_s": round(answer.messages_out, 1),
        "groups": list(answer.groups),
    }


def _queue_record(queue: "QueueState") -> dict[str, object]:
    record: dict[str, object] = {
        "broker": queue.broker,
        "queue": queue.queue_id,
        "first_offset": queue.min_offset,
        "end_offset": queue.max_offset,
        "messages": queue.max_offset - queue.min_offset,
    }
    if queue.size is not None:
        record |= {"bytes": queue.size, "oldest": iso_or_none(queue.oldest, timespec="milliseconds")}
    return record


@command.command()
@click.argument("name")
@click.option("--queues", type=click.IntRange(min=1), help="Message queues on each broker; never fewer than there are.")
@click.option("--permission", type=click.Choice(PERMISSION_NAMES), help="What clients may do with it.")
@replication_option
@flush_option
@retention_option
@lite_ttl_option
@click.option("--add-broker", "added", multiple=True, metavar="NAME", help="Have it on that broker too; repeatable.")
@click.option("--remove-broker", "removed", multiple=True, metavar="NAME", help="Take it off that broker; repeatable.")
@endpoint_option
@json_option
def update(
    name: str,
    queues: int | None,
    permission: str | None,
    replication: str | None,
    flush: str | None,
    retention: timedelta | None,
    lite_ttl: timedelta | None,
    added: tuple[str, ...],
    removed: tuple[str, ...],
    endpoint: str,
    as_json: bool,
) -> None:
    """Change topic NAME: more queues, another permission, replication, flush mode, retention or TTL, other brokers.

    To move a topic off a broker, drain the broker or make the topic read-only, let consumers finish its messages, and
    then remove the broker.

    \b
    Examples:
      ternmq topic update orders --queues 32
      ternmq topic update orders --add-broker broker-2
      ternmq topic update orders --permission read
      ternmq topic update orders --replication sync --flush sync
      ternmq topic update clicks --retention 12h
      ternmq topic update chats --lite-ttl 2h
      ternmq topic update orders --remove-broker broker-0
    """
    settings = (queues, permission, replication, flush, retention, lite_ttl)
    if all(value is None for value in settings) and not (added or removed):
        raise WrongUsage(
            "nothing to change; give --queues, --permission, --replication, --flush, --retention, --lite-ttl, "
            "--add-broker or --remove-broker"
        )
    from ternmq.admin import topics
    from ternmq_command.calls.admin import AdminClient

    permitted = cast("Permission | None", permission)
    change = topics.update_topic(
        name,
        queues=queues,
        permission=permitted,
        add_brokers=added,
        remove_brokers=removed,
        replication=cast("Replication | None", replication),
        flush=cast("Flush | None", flush),
        retention=retention,
        lite_ttl=lite_ttl,
    )
    with AdminClient(endpoint) as admin, suggesting_names(admin, "topic", name):
        record = full_topic_record(admin.send_call(change))
    if as_json:
        print_json(record)
    else:
        echo_lines(format_record(*drop_empty_columns([record], "lite_ttl")))


@command.command()
@click.argument("name")
@yes_option
@endpoint_option
@json_option
def delete(name: str, yes: bool, endpoint: str, as_json: bool) -> None:
    """Delete topic NAME with all its messages. Asks first; without a terminal it needs --yes.

    \b
    Examples:
      ternmq topic delete orders
      ternmq topic delete orders --yes
    """
    from ternmq.admin import topics as topic_calls
    from ternmq_command.calls.admin import AdminClient

    confirm_action(f"Delete topic {name} and all its messages?", yes=yes)
    with AdminClient(endpoint) as admin, suggesting_names(admin, "topic", name):
        admin.send_call(topic_calls.delete_topic(name))
    print_deleted("topic", name, as_json=as_json)


def topic_record(topic: "Topic") -> dict[str, object]:
    return {
        "name": topic.name,
        "type": topic.type,
        "queues": topic.queues,
        "created": iso_or_none(topic.created),
        "lite_ttl": format_lite_ttl(topic.lite_ttl) if topic.type == LITE else None,
    }


def full_topic_record(topic: "Topic") -> dict[str, object]:
    """Return a topic's record with the settings that matter in a cluster."""
    return {
        **topic_record(topic),
        "permission": topic.permission,
        "replication": topic.replication,
        "flush": topic.flush,
        "retention": format_retention(topic.retention),
        "brokers": list(topic.brokers),
    }


def format_retention(retention: timedelta | None) -> str:
    """Format a retention: `7d`, or `broker` where messages are kept as long as the broker keeps them."""
    return render_duration(retention // timedelta(milliseconds=1)) if retention else "broker"


def format_lite_ttl(lite_ttl: timedelta | None) -> str:
    """Format a TTL of lite topics: `1d`, or `none` where lite topics exist as long as their messages."""
    return render_duration(lite_ttl // timedelta(milliseconds=1)) if lite_ttl else "none"
