"""`ternmq send`: sends one message from the command line or standard input, or one for each line of a file."""

import functools
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import DurationParam, ExactTimeParam, PairParam, endpoint_option, json_lines_option
from ternmq_command.terminal.output import iso_datetime, print_json_line
from ternmq_command.terminal.printing import echo
from ternmq_common.units import render_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq import Message, SendReceipt
    from ternmq_command.message.message_lines import LineContent, ReadableFile

BATCH_MESSAGES = 100
BATCH_BYTES = 1024 * 1024
MILLISECOND = timedelta(milliseconds=1)


def _reject_old_group(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Refuse the old name of `--message-group`, since `--group` is a consumer group in all other commands."""
    del option
    if value is not None:
        raise click.UsageError("--group is called --message-group now; a send has no consumer group", context)


@click.command()
@click.argument("topic")
@click.argument("body", required=False)
@click.option("--tag", help="One tag, for filters.")
@click.option("--key", "keys", multiple=True, help="A key to find it by; may be repeated.")
@click.option("--property", "properties", type=PairParam(), multiple=True, help="A user property; may be repeated.")
@click.option(
    "--message-group", metavar="NAME", help="For fifo topics: messages of one message group are delivered in order."
)
@click.option("--group", hidden=True, expose_value=False, callback=_reject_old_group, help="What --message-group was.")
@click.option(
    "--delay",
    type=DurationParam(),
    help="For delay topics: deliver it this much later; by default a server allows 24h (its setting delay_max_ms).",
)
@click.option(
    "--at",
    type=ExactTimeParam(),
    help="For delay topics: deliver it at this time, ISO 8601, as far ahead as --delay may be; now if it is past.",
)
@click.option(
    "--delay-level",
    type=click.IntRange(min=1),
    metavar="N",
    help="For delay topics: deliver it after the delay of this number in the server's table, 1s 5s 10s 30s 1m and "
    "so on to 2h for 18 unless set otherwise.",
)
@click.option("--priority", type=click.IntRange(min=0), help="For priority topics: higher ones are delivered first.")
@click.option(
    "--lite-topic",
    metavar="NAME",
    help="For lite topics: send it to the lite topic of that name, which need not exist.",
)
@click.option(
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Send each line of FILE (- is standard input) as it is, as the body of a message; empty lines are skipped.",
)
@click.option(
    "--jsonl",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Send a message for each JSON object in the lines of FILE (- is standard input): those that `tail --json` and "
    "`dlq export` write. The first invalid line ends it.",
)
@endpoint_option
@json_lines_option
def command(
    topic: str,
    body: str | None,
    tag: str | None,
    keys: tuple[str, ...],
    properties: tuple[tuple[str, str], ...],
    message_group: str | None,
    delay: timedelta | None,
    at: datetime | None,
    delay_level: int | None,
    priority: int | None,
    lite_topic: str | None,
    file: Path | None,
    jsonl: Path | None,
    endpoint: str,
    as_json: bool,
) -> None:
    """Send BODY to TOPIC; without it, or with -, the body is read from standard input.

    A timed message can be recalled before its delivery: `ternmq recall` takes the handle that is printed, with --file
    and --jsonl only by --json.

    A JSON line has body or body_base64, and may have tag, keys, properties, message_group, priority, lite_topic and,
    for a delay topic, delivery; fields of an earlier delivery (topic, message_id, offset, born, reason and others) are
    ignored.

    \b
    Examples:
      ternmq send orders 'hello' --tag paid --key order-17 --property region=eu
      echo '{"id": 1}' | ternmq send orders -
      ternmq send orders --file bodies.txt
      ternmq tail orders --json | ternmq send copies --jsonl -
      ternmq send payments '{"id": 1}' --message-group customer-7
      ternmq send chats 'hello' --lite-topic chat-17
      ternmq send reminders 'call back' --delay 1h30m
      ternmq send reminders 'call back' --at "$(date -u -d '+2 hours' +%FT%TZ)"
    """
    if sum(source is not None for source in (body, file, jsonl)) > 1:
        raise WrongUsage("give one of a body, --file and --jsonl, not both")
    if jsonl is not None and (tag is not None or keys or properties or (message_group or lite_topic) is not None):
        raise WrongUsage(
            "a line of --jsonl has its own tag, keys, properties, message group and lite topic; leave the options out"
        )
    if sum(time is not None for time in (delay, at, delay_level)) > 1:
        raise WrongUsage("give one of --delay, --at and --delay-level")
    from ternmq.messages.message import Message
    from ternmq_command.calls.library import converting_errors
    from ternmq_command.message.message_lines import LineContent

    with converting_errors(endpoint):
        ahead = timedelta(0) if delay is None else _clock_advance(endpoint)

        delivery = _delivery_function(endpoint, topic, has_delay=delay is not None or delay_level is not None)

        def message_with(content: LineContent) -> Message:
            return Message(
                topic,
                content.body,
                tag=content.tag,
                keys=content.keys,
                properties=content.properties,
                message_group=content.message_group,
                delivery_timestamp=at or delivery(content),
                delay=None if delay is None else delay + ahead,
                delay_level=delay_level,
                priority=priority if content.priority is None else content.priority,
                lite_topic=content.lite_topic,
            )

        def message_of(content: bytes) -> Message:
            values = LineContent(
                body=content,
                tag=tag,
                keys=keys,
                properties=dict(properties),
                message_group=message_group,
                lite_topic=lite_topic,
            )
            return message_with(values)

        if jsonl is not None:
            _send_batches(endpoint, topic, _json_batches(jsonl, message_with), as_json=as_json)
        elif file is not None:
            batches = ([message_of(line) for line in batch] for batch in _split_batches(_read_lines(file)))
            _send_batches(endpoint, topic, batches, as_json=as_json)
        else:
            receipt = _send_one(endpoint, message_of(_single_body(body)))
            if as_json:
                print_json_line(_receipt_record(receipt))
            else:
                for line in _receipt_lines(receipt, _describe_delivery(delay, at)):
                    echo(line)


def _delivery_function(endpoint: str, topic: str, *, has_delay: bool) -> "Callable[[LineContent], datetime | None]":
    """Return a function that returns a line's own time of delivery.

    It returns None if an option sets a delay for all lines (`has_delay`), or if the topic is of another type.
    """
    from ternmq_command.message.topic_types import accepts_timed_messages

    is_timed = functools.cache(lambda: accepts_timed_messages(endpoint, topic))

    def find_delivery(content: "LineContent") -> datetime | None:
        return None if has_delay or content.delivery is None or not is_timed() else content.delivery

    return find_delivery


def _clock_advance(endpoint: str) -> timedelta:
    from ternmq_command.calls.server_time import clock_advance

    return clock_advance(endpoint)


def _describe_delivery(delay: timedelta | None, at: datetime | None) -> str:
    """Format when a timed message will be delivered; only the server knows it for a delay level."""
    if delay is not None:
        return f"in {render_duration(round(delay / MILLISECOND))}"
    return f"at {iso_datetime(at, timespec='milliseconds')}" if at is not None else "later"


def _send_one(endpoint: str, message: "Message") -> "SendReceipt":
    from ternmq.blocking import Producer
    from ternmq_command.calls.access import current_access

    with Producer(endpoint, topics=[message.topic], **current_access().client_options()) as producer:
        return producer.send(message)


def _send_batches(endpoint: str, topic: str, batches: "Iterable[Sequence[Message]]", *, as_json: bool) -> None:
    """Send all batches, and print what was sent, also after an error."""
    from ternmq.blocking import Producer
    from ternmq.errors import SendManyError
    from ternmq.messages.message import SendReceipt
    from ternmq_command.calls.access import current_access

    started, sent = time.monotonic(), 0

    def count_receipts(receipts: "Sequence[SendReceipt]") -> None:
        nonlocal sent
        sent += len(receipts)
        if as_json:
            for receipt in receipts:
                print_json_line(_receipt_record(receipt))

    with Producer(endpoint, topics=[topic], **current_access().client_options()) as producer:
        try:
            for batch in batches:
                count_receipts(producer.send_many(batch))
        except SendManyError as error:
            count_receipts([outcome for outcome in error.outcomes if isinstance(outcome, SendReceipt)])
            raise
        finally:
            if not as_json:
                echo(f"sent {sent} messages to {topic} in {time.monotonic() - started:.2f} s")


def _single_body(body: str | None) -> bytes:
    if body is not None and body != "-":
        return body.encode()
    if body is None and sys.stdin.isatty():
        raise WrongUsage("no body: write it after the topic, or - to read it from standard input")
    return sys.stdin.buffer.read()


def _read_lines(file: Path) -> Iterator[bytes]:
    try:
        with click.open_file(str(file), "rb") as source:
            for line in source:
                if content := line.rstrip(b"\r\n"):
                    yield content
    except OSError as error:
        raise WrongUsage(f"can't read {file}: {error.strerror}") from None


def _json_batches(file: Path, message_of: "Callable[[LineContent], Message]") -> "Iterator[Sequence[Message]]":
    from ternmq_command.message.message_lines import BadLine, message_batches

    try:
        with click.open_file(str(file), "rb") as source:
            yield from message_batches(cast("ReadableFile", source), message_of)
    except BadLine as bad:
        raise WrongUsage(f"{'standard input' if str(file) == '-' else file}, {bad}") from None
    except OSError as error:
        raise WrongUsage(f"can't read {file}: {error.strerror}") from None


def _split_batches(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    batch_bytes = 0
    for line in lines:
        if batch and (len(batch) == BATCH_MESSAGES or batch_bytes + len(line) > BATCH_BYTES):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(line)
        batch_bytes += len(line)
    if batch:
        yield batch


def _receipt_lines(receipt: "SendReceipt", when: str) -> list[str]:
    if not receipt.recall_handle:
        return [f"sent {receipt.message_id} to {receipt.topic}, offset {receipt.offset}"]
    return [
        f"sent {receipt.message_id} to {receipt.topic}, to be delivered {when}",
        f"recall it with: ternmq recall {receipt.topic} {receipt.recall_handle}",
    ]


def _receipt_record(receipt: "SendReceipt") -> dict[str, object]:
    return {
        "topic": receipt.topic,
        "message_id": receipt.message_id,
        "offset": receipt.offset,
        "recall_handle": receipt.recall_handle or None,
    }
