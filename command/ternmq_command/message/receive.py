"""`ternmq receive`: receives messages as a consumer group, prints and acknowledges them."""

from datetime import timedelta

import click

from ternmq_command.message.fields import MESSAGE_FIELDS
from ternmq_command.message.filter_options import EVERY_TAG, check_one_filter, filter_options
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import DurationParam, endpoint_option, json_lines_option, raw_option
from ternmq_command.terminal.printing import echo
from ternmq_command.terminal.template import Template, check_one_form, format_option

ALL_LITE_TOPICS = "*"
FOLLOW_WAIT = timedelta(seconds=15)


@click.command()
@click.argument("topic")
@click.option("--group", required=True, help="The consumer group that receives the messages.")
@click.option("--max", "messages_max", type=click.IntRange(min=1), help="Stop after this many.  [default: 32]")
@click.option(
    "--wait", type=DurationParam(), default="5s", show_default=True, help="Stop when no message came for this long."
)
@click.option("--follow", is_flag=True, help="Continue until Ctrl-C, or --max.")
@click.option("--no-ack", is_flag=True, help="Do not acknowledge: the messages are delivered again after 30 s.")
@click.option(
    "--lite-topic",
    "lite_topics",
    multiple=True,
    metavar="NAME",
    help="With a lite group: receive the messages of the lite topic of that name; may be repeated. '*' is for a group "
    "that was created with --lite-wildcard, and means all of them.",
)
@filter_options
@endpoint_option
@json_lines_option
@format_option(*MESSAGE_FIELDS)
@raw_option
def command(
    topic: str,
    group: str,
    messages_max: int | None,
    wait: timedelta,
    follow: bool,
    no_ack: bool,
    lite_topics: tuple[str, ...],
    tags: str,
    sql: str | None,
    endpoint: str,
    as_json: bool,
    template: Template | None,
    raw: bool,
) -> None:
    """Receive messages of TOPIC as a consumer group.

    Each is printed and then acknowledged. Messages that an interrupted call did not acknowledge are delivered again.

    \b
    Examples:
      ternmq receive orders --group billing
      ternmq receive orders --group billing --max 1 --json | jq -r .body
      ternmq receive orders --group audit --follow --filter 'paid || refunded'
      ternmq receive orders --group audit --no-ack
      ternmq receive chats --group agents --lite-topic chat-17 --follow
      ternmq receive orders --group audit --format '{offset} {properties.region} {body}'
    """
    check_one_form(template, as_json=as_json)
    check_one_filter(tags, sql)
    if lite_topics and (sql is not None or tags != EVERY_TAG):
        raise WrongUsage("lite groups receive all messages of a lite topic: leave --filter and --sql out")
    import asyncio

    from ternmq import LiteSimpleConsumer, SimpleConsumer
    from ternmq.messages.filters import SqlFilter
    from ternmq_command.calls.access import current_access
    from ternmq_command.calls.library import converting_errors
    from ternmq_command.message.receive_run import BATCH_MAX, ReceiveRun
    from ternmq_command.message.receive_run import follow_messages as follow_on

    wanted = tags if sql is None else SqlFilter(sql)
    wait = FOLLOW_WAIT if follow else wait
    limit = messages_max or (None if follow else BATCH_MAX)
    receiving = ReceiveRun(limit, acknowledges=not no_ack, as_json=as_json, raw=raw, template=template)

    def create_consumer(wait: timedelta) -> SimpleConsumer:
        if lite_topics:
            names = [name for name in lite_topics if name != ALL_LITE_TOPICS]
            return LiteSimpleConsumer(
                endpoint, group, topic, lite_topics=names, await_duration=wait, **current_access().client_options()
            )
        return SimpleConsumer(
            endpoint,
            group=group,
            subscriptions={topic: wanted},
            await_duration=wait,
            **current_access().client_options(),
        )

    async def receive_all() -> None:
        if follow:
            await follow_on(endpoint, receiving, create_consumer, wait)
            return
        async with create_consumer(wait) as running:
            while not receiving.is_enough and await receiving.receive_batch(running):
                pass

    with converting_errors(endpoint):
        asyncio.run(receive_all())
    if not receiving.count:
        echo(f"no message came within {wait.total_seconds():g} s", err=True)
