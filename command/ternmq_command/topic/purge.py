"""`ternmq topic purge` and `ternmq dlq purge`: remove all messages of a topic, or those stored before a time."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.name_suggestions import suggesting_names
from ternmq_command.terminal.options import TimeParam, endpoint_option, json_option
from ternmq_command.terminal.output import format_count, format_table, iso_datetime, print_json
from ternmq_command.terminal.printing import echo, echo_lines

if TYPE_CHECKING:
    from ternmq.admin.topics import PurgedQueue
    from ternmq_command.calls.admin import AdminClient

before_option = click.option(
    "--before", type=TimeParam(), help="Only what was stored before this time: ISO 8601, or 2h for two hours ago."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Count what would be removed, and change nothing.")


@click.command()
@click.argument("topic")
@before_option
@dry_run_option
@yes_option
@endpoint_option
@json_option
def command(topic: str, before: datetime | None, dry_run: bool, yes: bool, endpoint: str, as_json: bool) -> None:
    """Remove the messages of TOPIC, and keep the topic. Asks first; without a terminal it needs --yes.

    All groups continue with messages that are sent from now on, or were stored at --before or later. Without --before,
    messages that wait for a retry are removed too. Dead letters, timed messages before their delivery, and open
    transactions stay. The disk space is freed when retention removes the files.

    \b
    Examples:
      ternmq topic purge orders --dry-run
      ternmq topic purge orders
      ternmq topic purge orders --before 7d --yes
    """
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin, suggesting_names(admin, "topic", topic):
        purge_topic(admin, topic, f"topic {topic}", "message", before, dry_run=dry_run, yes=yes, as_json=as_json)


def purge_topic(
    admin: "AdminClient",
    topic: str,
    whose: str,
    thing: str,
    before: datetime | None,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Ask for confirmation with the number of messages, purge, and print how many the server removed.

    `thing` and `whose` name the messages and their owner, in the texts.
    """
    from ternmq.admin import topics as topic_calls

    since = f" stored before {iso_datetime(before)}" if before is not None else ""

    def build_question() -> str:
        there = count_removed(admin.send_call(topic_calls.purge_topic(topic, before=before, dry_run=True)))
        return f"Remove {format_count(there, thing)} of {whose}{since} for good?"

    if not dry_run:
        confirm_action(build_question, yes=yes)
    queues = admin.send_call(topic_calls.purge_topic(topic, before=before, dry_run=dry_run))
    if as_json:
        total = count_removed(queues)
        print_json(
            {"topic": topic, "dry_run": dry_run, "messages": total, "queues": [_queue_record(each) for each in queues]}
        )
        return
    if some := [_queue_record(each) for each in queues if each.removed]:
        echo_lines(format_table(some) + "\n")
    count = format_count(count_removed(queues), thing)
    if dry_run:
        echo(f"{count} of {whose}{since} would be removed; nothing was changed (--dry-run)")
    else:
        echo(f"removed {count} of {whose}{since}")


def count_removed(queues: "list[PurgedQueue]") -> int:
    return sum(queue.removed for queue in queues)


def _queue_record(queue: "PurgedQueue") -> dict[str, object]:
    return {
        "broker": queue.broker,
        "queue": queue.queue_id,
        "first_offset": queue.after,
        "removed": queue.removed,
    }
