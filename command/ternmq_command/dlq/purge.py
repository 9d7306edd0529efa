"""`ternmq dlq purge`: removes dead letters of a group."""

from datetime import datetime

import click

from ternmq_command.terminal.confirmation import yes_option
from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.topic.purge import before_option, dry_run_option, purge_topic


@click.command()
@click.argument("group")
@before_option
@dry_run_option
@yes_option
@endpoint_option
@json_option
def command(group: str, before: datetime | None, dry_run: bool, yes: bool, endpoint: str, as_json: bool) -> None:
    """Remove the dead letters of GROUP. Asks first; without a terminal it needs --yes.

    \b
    Examples:
      ternmq dlq export billing letters.jsonl && ternmq dlq purge billing
      ternmq dlq purge billing --before 7d --dry-run
      ternmq dlq purge billing --before 2026-08-01T12:00 --yes
    """
    from ternmq.admin import groups as group_calls
    from ternmq_command.calls.admin import AdminClient
    from ternmq_common.names import dead_letter_topic

    with AdminClient(endpoint) as admin:
        # So that the error for a missing group does not name its topic.
        admin.send_call(group_calls.describe_group(group))
        topic, whose = dead_letter_topic(group), f"group {group}"
        purge_topic(admin, topic, whose, "dead letter", before, dry_run=dry_run, yes=yes, as_json=as_json)
