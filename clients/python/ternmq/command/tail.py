"""`ternmq tail`: follow a topic without a group, by pulling each of its queues with long polling.

Nothing on the server changes: no group, no progress, no delivery. Order holds within a queue, not between queues.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from ternmq.command.failures import WrongUsage
from ternmq.command.options import Moment, endpoint_option, json_lines_option, raw_option

if TYPE_CHECKING:
    from ternmq_protos.v2 import definition_pb2

LONG_POLL = timedelta(seconds=15)
OFFSET_MAX = 2**63 - 1  # what the wire has room for


@click.command()
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest message that is kept, not with the next.")
@click.option(
    "--since",
    type=Moment(),
    help="Begin with what was stored at this time or later: ISO 8601, or 2h for two hours ago.",
)
@click.option("--queue", "queue_id", type=click.IntRange(min=0), metavar="N", help="Only the queue of this number.")
@click.option(
    "--offset",
    "queue_offset",
    type=click.IntRange(min=0, max=OFFSET_MAX),
    metavar="N",
    help="Begin with this place in the queue of --queue, or with the oldest message that is kept behind it.",
)
@click.option("--broker", default="", metavar="NAME", help="Only what is on this broker of a cluster.")
@click.option("--max", "messages_max", type=click.IntRange(min=1), help="Stop after so many.  [default: never]")
@click.option("--filter", "tags", default="*", metavar="TAGS", help="Only these tags: 'paid || refunded'.")
@click.option(
    "--sql",
    metavar="CONDITION",
    help="Only messages whose properties meet this SQL92 condition: \"region = 'eu'\".",
)
@endpoint_option
@json_lines_option
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
    raw: bool,
) -> None:
    """Print the messages of TOPIC as they arrive, until Ctrl-C. No consumer group is touched.

    \b
    Examples:
      ternmq tail orders
      ternmq tail orders --from-beginning --max 10 --json
      ternmq tail orders --filter 'paid || refunded'
      ternmq tail orders --since 2h
      ternmq tail orders --queue 3 --offset 1700
    """
    if sum((from_beginning, since is not None, queue_offset is not None)) > 1:
        raise WrongUsage("give one of --from-beginning, --since and --offset")
    if queue_offset is not None and queue_id is None:
        raise WrongUsage("--offset is one of a queue: say --queue too")
    if sql is not None and tags != "*":
        raise WrongUsage("give --filter or --sql, not both")
    import asyncio

    from ternmq.command.follower import Follower, Start
    from ternmq.command.library import client_errors, print_message

    start = Start(
        from_beginning=from_beginning, since=since, queue_offset=queue_offset, queue_id=queue_id, broker=broker
    )

    async def follow() -> None:
        async with Follower(endpoint, topic, _expression(tags, sql), long_poll=LONG_POLL) as follower:
            printed = 0
            async for view in follower.messages(start):
                print_message(view, as_json=as_json, raw=raw)
                printed += 1
                if printed == messages_max:
                    return

    with client_errors(endpoint):
        asyncio.run(follow())


def _expression(tags: str, sql: str | None) -> "definition_pb2.FilterExpression":
    from ternmq.filters import SqlFilter, TagFilter

    return TagFilter(tags).to_proto() if sql is None else SqlFilter(sql).to_proto()
