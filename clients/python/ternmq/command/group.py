"""`ternmq group`: create, list, describe, delete."""

import sys
from typing import TYPE_CHECKING

import click

from ternmq.command.options import endpoint_option, json_option
from ternmq.command.output import described, iso, print_json, print_records, table

if TYPE_CHECKING:
    from ternmq_protos.admin_v1 import admin_pb2


@click.group()
def command() -> None:
    """Create, list, describe and delete consumer groups.

    \b
    Examples:
      ternmq group create billing --fifo --max-attempts 5
      ternmq group list
      ternmq group describe billing
    """


@command.command()
@click.argument("name")
@click.option("--fifo", is_flag=True, help="Deliver the messages of a message group in order, one at a time.")
@click.option(
    "--max-attempts",
    type=click.IntRange(min=1),
    help="Deliveries of a message, the first included.  [default: the server's]",
)
@endpoint_option
@json_option
def create(name: str, fifo: bool, max_attempts: int | None, endpoint: str, as_json: bool) -> None:
    """Create consumer group NAME; succeeds when it is there with the same settings.

    \b
    Examples:
      ternmq group create billing
      ternmq group create billing --fifo --max-attempts 5
    """
    from ternmq.command.admin import AdminClient

    with AdminClient(endpoint) as admin:
        created = admin.create_group(name, fifo=fifo, max_attempts=max_attempts or 0)
    if as_json:
        print_json({"name": name, "created": created})
    else:
        click.echo(f"group {name} {'created' if created else 'exists already, with these settings'}")


@command.command(name="list")
@endpoint_option
@json_option
def list_(endpoint: str, as_json: bool) -> None:
    """List all consumer groups.

    \b
    Examples:
      ternmq group list
      ternmq group list --json
    """
    from ternmq.command.admin import AdminClient

    with AdminClient(endpoint) as admin:
        groups = admin.groups()
    print_records([group_record(group) for group in groups], as_json=as_json, nothing="no groups")


@command.command()
@click.argument("name")
@endpoint_option
@json_option
def describe(name: str, endpoint: str, as_json: bool) -> None:
    """Show consumer group NAME, how far it is in each queue, and its connected clients.

    The lag of a queue is what is neither acknowledged nor given up.

    \b
    Examples:
      ternmq group describe billing
      ternmq group describe billing --json | jq '[.progress[].lag] | add'
    """
    from ternmq.command.admin import AdminClient

    with AdminClient(endpoint) as admin:
        answer = admin.group(name)
    record, progress = group_record(answer.group), [progress_record(entry) for entry in answer.progress]
    if as_json:
        print_json({**record, "progress": progress, "clients": list(answer.client_ids)})
        return
    click.echo(described({**record, "clients": ", ".join(answer.client_ids) or None}))
    if progress:
        click.echo("\n" + table(progress))


@command.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@endpoint_option
def delete(name: str, yes: bool, endpoint: str) -> None:
    """Delete consumer group NAME and its progress. Asks first when standard input is a terminal.

    \b
    Examples:
      ternmq group delete billing
      ternmq group delete billing --yes
    """
    from ternmq.command.admin import AdminClient

    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete group {name} and its progress?", abort=True)
    with AdminClient(endpoint) as admin:
        admin.delete_group(name)
    click.echo(f"group {name} deleted")


def group_record(group: "admin_pb2.Group") -> dict[str, object]:
    return {
        "name": group.name,
        "fifo": group.fifo,
        "max_attempts": group.max_attempts,
        "created": iso(group.created),
    }


def progress_record(progress: "admin_pb2.Progress") -> dict[str, object]:
    return {
        "topic": progress.topic,
        "broker": progress.broker,
        "queue": progress.queue_id,
        "committed": progress.committed,
        "delivered": progress.cursor,
        "in_flight": progress.in_flight,
        "end_offset": progress.max_offset,
        "lag": progress.max_offset - progress.cursor + progress.in_flight,
    }
