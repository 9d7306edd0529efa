"""`ternmq tail`: follows a topic without a group, by pulling each of its queues with long polls.

It changes nothing on the server: no group, no progress, no delivery attempts. Messages of one queue come in order.
"""

from datetime import datetime, timedelta

import click

from ternmq_command.message.fields import MESSAGE_FIELDS
from ternmq_command.message.filter_options import build_expression, check_one_filter, filter_options
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import TimeParam, endpoint_option, json_lines_option, raw_option
from ternmq_command.terminal.template import Template, check_one_form, format_option

LONG_POLL = timedelta(seconds=15)
OFFSET_MAX = 2**63 - 1  # the wire's int64


@click.command()
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest message that is kept, not with the next.")
@click.option(
    "--since",
    type=TimeParam(),
    help="Begin with what was stored at this time or later: ISO 8601, or 2h for two hours ago.",
)
@click.option("--queue", "queue_id", type=click.IntRange(min=0), metavar="N", help="Only the queue of this number.")
@click.option(
    "--offset",
    "queue_offset",
    type=click.IntRange(min=0, max=OFFSET_MAX),
    metavar="N",
    help="Begin at this offset in the queue of --queue, or with the oldest message that is kept behind it.",
)
@click.option("--broker", default="", metavar="NAME", help="Only what is on this broker of a cluster.")
@click.option("--max", "messages_max", type=click.IntRange(min=1), help="Stop after this many.  [default: never]")
@filter_options
@endpoint_option
@json_lines_option
@format_option(*MESSAGE_FIELDS)
@raw_option
def command(
    topic: str,
    from_beginning: bool,
    since: datetime | None,
    queue_id: int | None,
    queue_offset: int | None,
    broker: str,
    messages_max: int | None,
    tags: str,
    sql: str | None,
    endpoint: str,
    as_json: bool,
    template: Template | None,
    raw: bool,
) -> None:
    """Print the messages of TOPIC as they arrive, until Ctrl-C. No consumer group is changed.

    \b
    Examples:
      ternmq tail orders
      ternmq tail orders --from-beginning --max 10 --json
      ternmq tail orders --filter 'paid || refunded'
      ternmq tail orders --since 2h
      ternmq tail orders --queue 3 --offset 1700
      ternmq tail orders --format '{stored} {keys} {body}'
    """
    check_one_form(template, as_json=as_json)
    if sum((from_beginning, since is not None, queue_offset is not None)) > 1:
        raise WrongUsage("give one of --from-beginning, --since and --offset")
    if queue_offset is not None and queue_id is None:
        raise WrongUsage("--offset needs --queue too")
    check_one_filter(tags, sql)
    import asyncio

    from ternmq_command.calls.library import converting_errors, print_message
    from ternmq_command.message.follower import StartPosition, TopicFollower

    start = StartPosition(
        from_beginning=from_beginning, since=since, queue_offset=queue_offset, queue_id=queue_id, broker=broker
    )

    async def follow_topic() -> None:
        async with TopicFollower(endpoint, topic, build_expression(tags, sql), long_poll=LONG_POLL) as follower:
            printed = 0
            async for view in follower.follow_messages(start):
                print_message(view, as_json=as_json, raw=raw, template=template)
                printed += 1
                if printed == messages_max:
                    return

    with converting_errors(endpoint):
        asyncio.run(follow_topic())
