"""`ternmq topic`: create, list, describe, update, export, import, purge, delete."""

from typing import TYPE_CHECKING, Any, cast

import click

from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.name_suggestions import suggesting_names
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import endpoint_option, json_option
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
from ternmq_command.terminal.setting_options import settings_options
from ternmq_command.terminal.template import Template, check_one_form, format_option
from ternmq_command.topic import export as topic_export
from ternmq_command.topic import importing as topic_importing
from ternmq_command.topic import purge as topic_purge
from ternmq_command.topic.settings import (
    LITE_COLUMNS,
    QUEUES,
    SETTINGS,
    TYPE_NAMES,
    full_topic_record,
    topic_record,
)
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS

if TYPE_CHECKING:
    from ternmq.admin.requests.words import TopicType
    from ternmq.admin.topics import QueueState, TopicDescription
    from ternmq_command.apply.declarations import DeclaredTopic
    from ternmq_command.apply.plan import PlannedChange
    from ternmq_command.calls.admin import AdminClient

GROUPS_SHOWN = 10


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
@settings_options([QUEUES], at_creation=True)
@click.option("--brokers", default="", metavar="A,B", help="Brokers of a cluster that have it.  [default: all]")
@settings_options(SETTINGS, at_creation=True)
@endpoint_option
@json_option
def create(name: str, type_name: str, brokers: str, endpoint: str, as_json: bool, **settings: Any) -> None:  # noqa: ANN401 - as described
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
    wanted = DeclaredTopic(name=name, type_name=type_name, settings=settings)
    with (
        AdminClient(endpoint) as admin,
        suggesting_update(lambda: _find_difference(admin, wanted, has_places=bool(places))),
    ):
        created = admin.send_call(
            topic_calls.create_topic(name, cast("TopicType", type_name), brokers=places, **settings)
        )
    if as_json:
        print_json({"name": name, "created": created})
    else:
        echo(f"topic {name} {'created' if created else 'exists already, with these settings'}")


def _find_difference(admin: "AdminClient", wanted: "DeclaredTopic", *, has_places: bool) -> "PlannedChange | None":
    """Return the change that would give the existing topic the requested settings.

    None if there is no such topic, or if only its brokers differ, which a declaration does not have.
    """
    from ternmq.admin import topics as topic_calls
    from ternmq_command.apply.plan import topic_change

    there = next((topic for topic in admin.send_call(topic_calls.list_topics()) if topic.name == wanted.name), None)
    if there is None:
        return None
    change = topic_change(wanted, there)
    return None if has_places and not (change.is_needed or change.is_refused) else change


@command.command(name="list")
@click.option("--search", default="", metavar="TEXT", help="Those with this in their name, in any case.")
@endpoint_option
@json_option
@format_option("name", "type", "queues", "created", *LITE_COLUMNS)
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
    from ternmq_command.calls.admin import send_call

    topics = send_call(endpoint, topic_calls.list_topics(search=search))
    records = [topic_record(topic) for topic in topics]
    if template is not None:
        template.write_records(records)
        return
    shown = records if as_json else drop_empty_columns(records, *LITE_COLUMNS)
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
    echo_lines(format_record(*drop_empty_columns([record], *LITE_COLUMNS, "lite_topics")))
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
@settings_options(TOPIC_SETTINGS)
@click.option("--add-broker", "added", multiple=True, metavar="NAME", help="Have it on that broker too; repeatable.")
@click.option("--remove-broker", "removed", multiple=True, metavar="NAME", help="Take it off that broker; repeatable.")
@endpoint_option
@json_option
def update(
    name: str,
    added: tuple[str, ...],
    removed: tuple[str, ...],
    endpoint: str,
    as_json: bool,
    **settings: Any,  # noqa: ANN401 - as described
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
    if all(value is None for value in settings.values()) and not (added or removed):
        options = ", ".join(each.option for each in TOPIC_SETTINGS)
        raise WrongUsage(f"nothing to change; give {options}, --add-broker or --remove-broker")
    from ternmq.admin import topics
    from ternmq_command.calls.admin import AdminClient

    change = topics.update_topic(name, add_brokers=added, remove_brokers=removed, **settings)
    with AdminClient(endpoint) as admin, suggesting_names(admin, "topic", name):
        record = full_topic_record(admin.send_call(change))
    if as_json:
        print_json(record)
    else:
        echo_lines(format_record(*drop_empty_columns([record], *LITE_COLUMNS)))


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
