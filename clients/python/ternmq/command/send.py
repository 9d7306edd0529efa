"""`ternmq send`: one message from the command line or standard input, or one per line of a file."""

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ternmq.command.failures import WrongUsage
from ternmq.command.options import Duration, Pair, endpoint_option, json_lines_option
from ternmq.command.output import print_json_line

if TYPE_CHECKING:
    from ternmq import Message, SendReceipt

BATCH_MESSAGES = 100
BATCH_BYTES = 1024 * 1024


@click.command()
@click.argument("topic")
@click.argument("body", required=False)
@click.option("--tag", help="One tag, for filters.")
@click.option("--key", "keys", multiple=True, help="A key to find it by; may be repeated.")
@click.option("--property", "properties", type=Pair(), multiple=True, help="A user property; may be repeated.")
@click.option(
    "--group",
    "message_group",
    help="Message group: its messages are delivered in order (where the server has fifo topics).",
)
@click.option("--delay", type=Duration(), help="Deliver it this much later (where the server has delay topics).")
@click.option("--priority", type=click.IntRange(min=0), help="Priority (where the server has priority topics).")
@click.option(
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Send each line of FILE (- is standard input) as a message; empty lines are skipped.",
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
    priority: int | None,
    file: Path | None,
    endpoint: str,
    as_json: bool,
) -> None:
    """Send BODY to TOPIC; - or nothing reads it from standard input.

    \b
    Examples:
      ternmq send orders 'hello' --tag paid --key order-17 --property region=eu
      echo '{"id": 1}' | ternmq send orders -
      ternmq send orders --file orders.jsonl
    """
    if body is not None and file is not None:
        raise WrongUsage("give a body or --file, not both")
    from ternmq.command.library import client_errors
    from ternmq.message import Message

    def message_of(content: bytes) -> "Message":
        return Message(
            topic,
            content,
            tag=tag,
            keys=keys,
            properties=dict(properties),
            message_group=message_group,
            delivery_timestamp=datetime.now(UTC) + delay if delay is not None else None,
            priority=priority,
        )

    with client_errors(endpoint):
        if file is None:
            _send_one(endpoint, message_of(_single_body(body)), as_json=as_json)
        else:
            _send_lines(endpoint, topic, file, message_of, as_json=as_json)


def _send_one(endpoint: str, message: "Message", *, as_json: bool) -> None:
    from ternmq.blocking import Producer

    with Producer(endpoint, topics=[message.topic]) as producer:
        receipt = producer.send(message)
    if as_json:
        print_json_line(_receipt_record(receipt))
    else:
        click.echo(f"sent {receipt.message_id} to {receipt.topic}, offset {receipt.offset}")


def _send_lines(
    endpoint: str, topic: str, file: Path, message_of: "Callable[[bytes], Message]", *, as_json: bool
) -> None:
    from ternmq.blocking import Producer

    started, sent = time.monotonic(), 0
    with Producer(endpoint, topics=[topic]) as producer:
        try:
            for batch in _batches(_lines(file)):
                receipts = producer.send_many([message_of(line) for line in batch])
                sent += len(receipts)
                if as_json:
                    for receipt in receipts:
                        print_json_line(_receipt_record(receipt))
        finally:
            if not as_json:
                click.echo(f"sent {sent} messages to {topic} in {time.monotonic() - started:.2f} s")


def _single_body(body: str | None) -> bytes:
    if body is not None and body != "-":
        return body.encode()
    if body is None and sys.stdin.isatty():
        raise WrongUsage("no body: write it after the topic, or - to read it from standard input")
    return sys.stdin.buffer.read()


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with click.open_file(str(file), "rb") as source:
            for line in source:
                if content := line.rstrip(b"\r\n"):
                    yield content
    except OSError as error:
        raise WrongUsage(f"can't read {file}: {error.strerror}") from None


def _batches(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
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


def _receipt_record(receipt: "SendReceipt") -> dict[str, object]:
    return {
        "topic": receipt.topic,
        "message_id": receipt.message_id,
        "offset": receipt.offset,
        "recall_handle": receipt.recall_handle or None,
    }
