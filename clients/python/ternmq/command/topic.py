"""`ternmq topic`: create, list, describe, delete."""

from typing import TYPE_CHECKING

import click

from ternmq.command.confirmation import confirm
from ternmq.command.options import endpoint_option, json_option
from ternmq.command.output import described, iso, print_json, print_records, table

if TYPE_CHECKING:
    from ternmq_protos.admin_v1 import admin_pb2

# The keys of `admin.TYPES`, which needs the protocol's code to be imported.
TYPE_NAMES = ("normal", "fifo", "delay", "transaction", "priority", "lite")


@click.group()
def command() -> None:
    """Create, list, describe and delete topics.

    \b
    Examples:
      ternmq topic create orders --type fifo --queues 16
      ternmq topic list
      ternmq topic describe orders --json
    """


@command.command()
@click.argument("name")
@click.option(
    "--type",
    "type_name",
    type=click.Choice(TYPE_NAMES, case_sensitive=False),
    default="normal",
    show_default=True,
    help="What its messages must be: in order within a message group (fifo), timed (delay), part of a transaction, "
    "taken by priority, or anything else (normal).",
)
@click.option("--queues", type=click.IntRange(min=1), help="Message queues on each broker.  [default: the server's]")
@endpoint_option
@json_option
def create(name: str, type_name: str, queues: int | None, endpoint: str, as_json: bool) -> None:
    """Create topic NAME; succeeds when it is there with the same settings.

    \b
    Examples:
      ternmq topic create orders
      ternmq topic create orders --type fifo --queues 16
      ternmq topic create reminders --type delay --endpoint broker.example:8081
      ternmq topic create payments --type transaction
      ternmq topic create alarms --type priority
    """
    from ternmq.command.admin import AdminClient

    with AdminClient(endpoint) as admin:
        created = admin.create_topic(name, type_name, queues or 0)
    if as_json:
        print_json({"name": name, "created": created})
    else:
        click.echo(f"topic {name} {'created' if created else 'exists already, with these settings'}")


@command.command(name="list")
@endpoint_option
@json_option
def list_(endpoint: str, as_json: bool) -> None:
    """List all topics.

    \b
    Examples:
      ternmq topic list
      ternmq topic list --json | jq -r '.[].name'
    """
    from ternmq.command.admin import AdminClient

    with AdminClient(endpoint) as admin:
        topics = admin.topics()
    print_records([topic_record(topic) for topic in topics], as_json=as_json, nothing="no topics")


@command.command()
@click.argument("name")
@endpoint_option
@json_option
def describe(name: str, endpoint: str, as_json: bool) -> None:
    """Show topic NAME and what each of its queues holds.

    \b
    Examples:
      ternmq topic describe orders
      ternmq topic describe orders --json | jq '[.message_queues[].messages] | add'
    """
    from ternmq.command.admin import AdminClient

    with AdminClient(endpoint) as admin:
        answer = admin.topic(name)
    record = topic_record(answer.topic)
    queues = [
        {
            "broker": queue.broker,
            "queue": queue.queue_id,
            "first_offset": queue.min_offset,
            "end_offset": queue.max_offset,
            "messages": queue.max_offset - queue.min_offset,
        }
        for queue in answer.queues
    ]
    if as_json:
        print_json({**record, "message_queues": queues})
        return
    click.echo(described(record))
    if queues:
        click.echo("\n" + table(queues))


@command.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@endpoint_option
def delete(name: str, yes: bool, endpoint: str) -> None:
    """Delete topic NAME with all its messages. Asks first when standard input is a terminal.

    \b
    Examples:
      ternmq topic delete orders
      ternmq topic delete orders --yes
    """
    from ternmq.command.admin import AdminClient

    confirm(f"Delete topic {name} and all its messages?", yes=yes)
    with AdminClient(endpoint) as admin:
        admin.delete_topic(name)
    click.echo(f"topic {name} deleted")


def topic_record(topic: "admin_pb2.Topic") -> dict[str, object]:
    from ternmq_protos.v2 import definition_pb2

    type_name = definition_pb2.MessageType.Name(topic.type).lower()
    return {"name": topic.name, "type": type_name, "queues": topic.queues, "created": iso(topic.created)}
