"""Converts the client library's errors to failures and its messages to records, for `send`, `receive` and `tail`.

The module imports the client library, so subcommands import it when they run.
"""

import base64
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ternmq.errors import BadRequest, ClientError, TlsFailed, TransportError, UnusableFile
from ternmq_command.calls.access import explain_refusal
from ternmq_command.terminal.failures import CommandFailure, ServerUnreachable, TlsRefused, WrongUsage
from ternmq_command.terminal.output import iso_datetime, print_json_line
from ternmq_command.terminal.printing import echo, echo_raw
from ternmq_common.addresses import parse_address

if TYPE_CHECKING:
    from datetime import datetime

    from ternmq.messages.message_view import MessageView
    from ternmq_command.terminal.output import Record
    from ternmq_command.terminal.template import Template

CONNECT_TIMEOUT_S = 3.0


@contextmanager
def converting_errors(endpoint: str) -> Iterator[None]:
    """Convert the library's errors to failures with an exit code.

    The library retries while a server starts; a person wants to know immediately, so a connection is tried first.
    """
    _check_connection(endpoint)
    try:
        yield
    except TlsFailed as error:
        raise TlsRefused(endpoint, error.message.removeprefix(f"{error.endpoint}: ")) from None
    except UnusableFile as error:
        raise WrongUsage(str(error)) from None
    except TransportError as error:
        if error.retryable:
            raise ServerUnreachable(endpoint, error.message.removeprefix(f"{error.endpoint}: ")) from None
        raise CommandFailure(error.message) from None
    except ClientError as error:
        raise explain_refusal(error.code, error.message) from None


def _check_connection(endpoint: str) -> None:
    try:
        socket.create_connection(parse_address(endpoint), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise ServerUnreachable(endpoint, (error.strerror or str(error) or "no answer").lower()) from None


def message_record(view: "MessageView") -> dict[str, object]:
    """Return a message as the record that `--json` prints; `body_base64` replaces a `body` that is not UTF-8."""
    return {
        "topic": view.topic,
        "message_id": view.message_id,
        "broker": view.broker,
        "queue": view.queue_id,
        "offset": view.offset,
        "tag": view.tag,
        "keys": list(view.keys),
        "message_group": view.message_group,
        "priority": view.priority,
        "lite_topic": view.lite_topic,
        "properties": view.properties,
        "born": iso_ms(view.born_timestamp),
        "stored": iso_ms(view.store_timestamp),
        "delivery": iso_ms(view.delivery_timestamp),
        "attempt": view.delivery_attempt,
        **body_record(readable_body(view)),
    }


def body_record(body: bytes) -> dict[str, str]:
    """Return the body as `body` if it is UTF-8, else as `body_base64`."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def readable_body(view: "MessageView") -> bytes:
    """Return the body; if it can't be decompressed, the stored bytes."""
    try:
        return view.body
    except BadRequest:
        return view.to_proto().body


def print_message(view: "MessageView", *, as_json: bool, raw: bool, template: "Template | None" = None) -> None:
    """Print a message on one line; body and names are escaped, unless `raw` is set."""
    record = message_record(view)
    if template is not None:
        template.write_record(record, raw=raw)
    elif as_json:
        print_json_line(record)
    elif raw:
        echo_raw(message_line(record))
    else:
        echo(message_line(record))


def message_line(record: "Record") -> str:
    """Format a message: `2026-08-01T12:00:00.123Z  queue 3 offset 17  tag=EWR  keys=UA1545  the body`."""
    parts = [str(record["stored"] or record["born"] or "-"), f"queue {record['queue']} offset {record['offset']}"]
    if record["tag"]:
        parts.append(f"tag={record['tag']}")
    if keys := record["keys"]:
        assert isinstance(keys, list)
        parts.append(f"keys={','.join(keys)}")
    if record["message_group"]:
        parts.append(f"group={record['message_group']}")
    if record["lite_topic"]:
        parts.append(f"lite={record['lite_topic']}")
    body = record["body"] if "body" in record else f"base64:{record['body_base64']}"
    return "  ".join([*parts, str(body)])


def iso_ms(moment: "datetime | None") -> str | None:
    return None if moment is None else iso_datetime(moment, timespec="milliseconds")
