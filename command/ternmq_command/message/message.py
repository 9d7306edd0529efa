"""`ternmq message`: finds stored messages of a topic, shows one, and its state in consumer groups."""

import itertools
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import click

from ternmq_command.message.fields import STORED_FIELDS
from ternmq_command.message.filter_options import EVERY_TAG, build_expression, check_one_filter, filter_options
from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.options import TimeParam, endpoint_option, json_lines_option, json_option, raw_option
from ternmq_command.terminal.output import iso_or_none, print_full_message, print_json, print_records, print_stream
from ternmq_command.terminal.printing import echo
from ternmq_command.terminal.template import Template, check_one_form, format_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ternmq.messages.message_view import MessageView
    from ternmq_command.message.topic_messages import TopicMessages
    from ternmq_command.terminal.output import Record

FOUND_MAX = 100


def message_arguments(function: "Callable[..., None]") -> "Callable[..., None]":
    """Add the arguments and options that name one message, which `_find_one` finds."""
    for option in (
        click.option("--broker", default="", metavar="NAME", help="The broker of --offset, in a cluster."),
        click.option("--queue", "queue_id", type=click.IntRange(min=0), help="The queue of --offset."),
        click.option(
            "--offset", "queue_offset", type=click.IntRange(min=0), help="Instead of an id: its offset in a queue."
        ),
        click.argument("message_id", required=False),
        click.argument("topic"),
    ):
        function = option(function)
    return function


@click.group()
def command() -> None:
    """Find stored messages, and show them. No consumer group is changed.

    \b
    Examples:
      ternmq message find orders --key order-7
      ternmq message find orders --since 10m
      ternmq message get orders 01E6E1FC7D8B4C0001
    """


@command.command()
@click.argument("topic")
@click.option("--key", help="Only those with this key.")
@click.option("--since", type=TimeParam(), help="Only those stored since this time: ISO 8601, or 2h for two hours ago.")
@click.option("--until", type=TimeParam(), help="Only those stored before this time.")
@click.option("--broker", default="", metavar="NAME", help="Only those on this broker of a cluster.")
@click.option("--queue", "queue_id", type=click.IntRange(min=0), help="Only those in this queue.")
@filter_options
@click.option(
    "--max",
    "most",
    type=click.IntRange(min=1),
    default=FOUND_MAX,
    show_default=True,
    help="Stop after so many.",
)
@endpoint_option
@json_lines_option
@format_option(*STORED_FIELDS)
def find(
    topic: str,
    key: str | None,
    since: datetime | None,
    until: datetime | None,
    broker: str,
    queue_id: int | None,
    tags: str,
    sql: str | None,
    most: int,
    endpoint: str,
    as_json: bool,
    template: Template | None,
) -> None:
    """List the stored messages of TOPIC, the oldest first.

    \b
    Examples:
      ternmq message find orders --key order-7
      ternmq message find orders --since 2026-08-01T12:00 --until 2026-08-01T13:00 --max 1000
      ternmq message find '%RETRY%billing' --queue 0 --json | jq -r .message_id
      ternmq message find orders --sql "region = 'eu'"
      ternmq message find orders --since 10m --format '{stored} {body}'
    """
    check_one_form(template, as_json=as_json)
    check_one_filter(tags, sql)
    with open_topic_messages(endpoint, topic, broker, queue_id) as messages:
        if sql is not None or tags != EVERY_TAG:
            messages.filter_expression = build_expression(tags, sql)
        within = messages.offset_ranges(since=since, until=until)
        found = messages.read_ranges(within) if key is None else messages.find_by_key(key, within)
        chosen = itertools.islice(found, most)
        if template is None:
            count = print_stream(map(_list_record, chosen), as_json=as_json)
        else:
            count = template.write_records(map(full_message_record, chosen))
    if not count:
        echo(f"topic {topic} has no such message", err=True)
    elif count == most:
        echo(f"the first {count:,}; --max shows more", err=True)


@command.command()
@message_arguments
@endpoint_option
@json_option
@format_option(*STORED_FIELDS)
@raw_option
def get(
    topic: str,
    message_id: str | None,
    queue_offset: int | None,
    queue_id: int | None,
    broker: str,
    endpoint: str,
    as_json: bool,
    template: Template | None,
    raw: bool,
) -> None:
    """Show the message of TOPIC that has MESSAGE_ID, the newest if it was sent several times, or the one at --offset.

    \b
    Examples:
      ternmq message get orders 01E6E1FC7D8B4C0001
      ternmq message get orders --queue 3 --offset 17
      ternmq message get orders 01E6E1FC7D8B4C0001 --json | jq -r .body
    """
    check_one_form(template, as_json=as_json)
    record = full_message_record(_find_one(topic, message_id, queue_offset, queue_id, broker, endpoint))
    if template is not None:
        template.write_record(record, raw=raw)
    elif as_json:
        print_json(record)
    else:
        print_full_message(record, raw=raw)


@command.command()
@message_arguments
@endpoint_option
@json_option
def groups(
    topic: str,
    message_id: str | None,
    queue_offset: int | None,
    queue_id: int | None,
    broker: str,
    endpoint: str,
    as_json: bool,
) -> None:
    """Show the state of the message of TOPIC that has MESSAGE_ID in each consumer group.

    ahead: the group has not reached it. held: a consumer has it. again: it was delivered, and waits for another
    delivery. finished: acknowledged, filtered out or skipped. dead: it is among the group's dead letters.

    \b
    Examples:
      ternmq message groups orders 01E6E1FC7D8B4C0001
      ternmq message groups orders --queue 3 --offset 17 --json
    """
    from ternmq.admin import message_status
    from ternmq_command.calls.admin import send_call

    view = _find_one(topic, message_id, queue_offset, queue_id, broker, endpoint)
    found = send_call(endpoint, message_status.describe_message(topic, view.queue_id, view.offset, broker=view.broker))
    records = [
        {
            "group": each.group,
            "state": each.state,
            "attempts": each.attempts or None,
            "until": iso_or_none(each.until, timespec="milliseconds"),
            "dead_letter": each.dead_letter_offset,
        }
        for each in found.standings
    ]
    print_records(
        records, as_json=as_json, nothing=f"no group has received messages of topic {topic} or subscribes to it"
    )


def _find_one(
    topic: str, message_id: str | None, queue_offset: int | None, queue_id: int | None, broker: str, endpoint: str
) -> "MessageView":
    """Return the message that the arguments name; raises CommandFailure if there is none."""
    if (message_id is None) == (queue_offset is None):
        raise WrongUsage("give MESSAGE_ID, or --queue and --offset")
    if queue_offset is not None and queue_id is None:
        raise WrongUsage("--offset needs --queue too")
    with open_topic_messages(endpoint, topic, broker, queue_id) as messages:
        if message_id is not None:
            view = next(iter(messages.find_by_id(message_id)), None)
        else:
            assert queue_offset is not None
            view = messages.read_at(_only_queue_key(messages), queue_offset)
    if view is None:
        sought = message_id if message_id is not None else f"at offset {queue_offset} of queue {queue_id}"
        raise CommandFailure(f"topic {topic} has no message {sought}")
    return view


@contextmanager
def open_topic_messages(endpoint: str, topic: str, broker: str, queue_id: int | None) -> "Iterator[TopicMessages]":
    """Open a topic's messages, of all its queues or some; raises CommandFailure if there are no such queues."""
    from ternmq_command.calls.admin import AdminClient
    from ternmq_command.calls.messaging import MessagingClient
    from ternmq_command.message.topic_messages import TopicMessages

    with AdminClient(endpoint) as admin, MessagingClient(endpoint) as messaging:
        queues = messaging.readable_queues(topic)
        brokers = sorted({queue.broker.name for queue in queues})
        if broker and broker not in brokers:
            raise CommandFailure(f"{topic} is not on broker {broker}; it is on {', '.join(brokers)}")
        wanted = [queue for queue in queues if broker in ("", queue.broker.name) and queue_id in (None, queue.id)]
        if not wanted:
            raise CommandFailure(f"topic {topic} has no queue {queue_id}")
        yield TopicMessages(admin, messaging, topic, wanted)


def _only_queue_key(messages: "TopicMessages") -> tuple[str, int]:
    places = messages.queue_keys
    if len(places) > 1:
        names = ", ".join(broker for broker, _ in places)
        raise WrongUsage(f"several brokers have that queue: choose one with --broker: {names}")
    return places[0]


def _list_record(view: "MessageView") -> "Record":
    from ternmq_command.calls.library import iso_ms

    return {
        "stored": iso_ms(view.store_timestamp),
        "broker": view.broker,
        "queue": view.queue_id,
        "offset": view.offset,
        "message_id": view.message_id,
        "tag": view.tag,
        "keys": list(view.keys),
        "body_bytes": view.stored_bytes,
    }


def full_message_record(view: "MessageView") -> dict[str, object]:
    """Return the record of a stored message, with all fields."""
    from ternmq_command.calls.library import body_record, iso_ms, readable_body

    return {
        "topic": view.topic,
        **_list_record(view),
        "message_group": view.message_group,
        "priority": view.priority,
        "lite_topic": view.lite_topic,
        "born": iso_ms(view.born_timestamp),
        "born_host": view.born_host or None,
        "delivery": iso_ms(view.delivery_timestamp),
        "properties": dict(sorted(view.properties.items())),
        **body_record(readable_body(view)),
    }
