"""`ternmq recall`: recalls a timed message before its delivery."""

import click

from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import print_json
from ternmq_command.terminal.printing import echo


@click.command()
@click.argument("topic")
@click.argument("handle")
@endpoint_option
@json_option
def command(topic: str, handle: str, endpoint: str, as_json: bool) -> None:
    """Recall a timed message of TOPIC, so that it is not delivered.

    HANDLE is the recall handle that `ternmq send --delay` printed. Recalling it again is no error; a message that is
    due can't be recalled.

    \b
    Examples:
      ternmq recall reminders djEgcmVtaW5kZXJzIGJyb2tlci0wIDE3ODU1ODU2MDAwMDAgaWQtMQ
      ternmq recall reminders "$(ternmq send reminders 'call back' --delay 2h --json | jq -r .recall_handle)"
    """
    from ternmq_command.calls.messaging import MessagingClient

    with MessagingClient(endpoint) as messaging:
        message_id = messaging.recall_message(topic, handle)
    if as_json:
        print_json({"topic": topic, "message_id": message_id})
    else:
        echo(f"recalled {message_id} of {topic}")
