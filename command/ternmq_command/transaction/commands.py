"""`ternmq transaction`: lists, shows, commits and rolls back transactions that no producer has ended."""

from typing import TYPE_CHECKING, Literal

import click

from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import CallRefused, CommandFailure
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import endpoint_option, json_lines_option, json_option, raw_option
from ternmq_command.terminal.output import (
    format_count,
    iso_or_none,
    print_full_message,
    print_json,
    print_json_line,
    print_stream,
)
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ternmq.admin.messages import OpenTransaction, TransactionPage
    from ternmq.admin.requests.call import AdminCall
    from ternmq.admin.requests.words import OpenState, Resolution
    from ternmq.messages.message_view import MessageView
    from ternmq_command.terminal.output import Record

# The keys of `ternmq.admin.requests.words.OPEN_STATES`, which needs the protocol's code to be imported.
OPEN_STATES: tuple["OpenState", ...] = ("pending", "discarded")
DONE = {"commit": "committed", "rollback": "rolled back"}


@click.group(cls=NearestGroup)
def command() -> None:
    """List open transactions, and end them in the place of their producers.

    A transaction is pending until its producer commits it or rolls it back; producers get transaction checks
    repeatedly. It is discarded when no producer answered the last check, or when its time was over. Its message is
    delivered only after a commit.

    \b
    Examples:
      ternmq transaction list --state discarded
      ternmq transaction show 01E6E1FC7D8B4C0001@broker-0@1f40
      ternmq transaction commit 01E6E1FC7D8B4C0001@broker-0@1f40
      ternmq transaction rollback 01E6E1FC7D8B4C0001@broker-0@1f40 --yes
    """


@command.command(name="list")
@click.option(
    "--state",
    type=click.Choice([*OPEN_STATES, "all"]),
    default="all",
    show_default=True,
    help="Only those that wait for their producer, or only those that no producer ended.",
)
@click.option("--topic", default="", help="Only those of this topic.")
@click.option("--message-id", default="", metavar="ID", help="Only those of the half message with this id.")
@endpoint_option
@json_lines_option
def list_transactions(
    state: "OpenState | Literal['all']", topic: str, message_id: str, endpoint: str, as_json: bool
) -> None:
    """List open transactions: first the pending ones, then the discarded ones, of each the oldest first.

    \b
    Examples:
      ternmq transaction list
      ternmq transaction list --state pending --topic payments
      ternmq transaction list --message-id 01E6E1FC7D8B4C0001
      ternmq transaction list --state discarded --json | jq -r .transaction_id
    """
    states = OPEN_STATES if state == "all" else (state,)
    records = _read_records(endpoint, states, topic, message_id)
    if not print_stream(records if as_json else map(_table_row, records), as_json=as_json):
        kind = "open" if state == "all" else state
        of = (f" of topic {topic}" if topic else "") + (f" of message {message_id}" if message_id else "")
        echo(f"no {kind} transactions{of}", err=True)


def _read_records(endpoint: str, states: "tuple[OpenState, ...]", topic: str, message_id: str) -> "Iterator[Record]":
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        for state in states:
            for page in admin.send_pages(_page_calls(state, topic, message_id)):
                yield from map(transaction_record, page.transactions)


def _page_calls(state: "OpenState", topic: str, message_id: str) -> "Callable[[str], AdminCall[TransactionPage]]":
    from ternmq.admin import messages as message_calls

    return lambda mark: message_calls.list_transactions(state, topic=topic, message_id=message_id, page=mark)


def _table_row(record: "Record") -> "Record":
    """Return the row of a table, without the message's id, with which the transaction's begins."""
    return {name: value for name, value in record.items() if name != "message_id"}


@command.command()
@click.argument("transaction_id", metavar="ID")
@endpoint_option
@json_option
@raw_option
def show(transaction_id: str, endpoint: str, as_json: bool, raw: bool) -> None:
    """Show transaction ID, with the properties and the body of its message.

    \b
    Examples:
      ternmq transaction show 01E6E1FC7D8B4C0001@broker-0@1f40
      ternmq transaction show 01E6E1FC7D8B4C0001@broker-0@1f40 --json | jq -r .body
    """
    from ternmq.admin import messages as message_calls
    from ternmq_command.calls.admin import send_call

    answer = send_call(endpoint, message_calls.describe_transaction(transaction_id))
    record = {**transaction_record(answer.transaction), **_message_record(answer.message)}
    if as_json:
        print_json(record)
    else:
        print_full_message(record, raw=raw)


def _message_record(view: "MessageView") -> dict[str, object]:
    from ternmq_command.calls.library import body_record, iso_ms, readable_body

    return {
        "tag": view.tag,
        "keys": list(view.keys),
        "properties": dict(sorted(view.properties.items())),
        "born": iso_ms(view.born_timestamp),
        "body_bytes": view.stored_bytes,
        **body_record(readable_body(view)),
    }


@command.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@yes_option
@endpoint_option
@json_lines_option
def commit(ids: tuple[str, ...], yes: bool, endpoint: str, as_json: bool) -> None:
    """Commit transactions: their messages are delivered. Asks first; without a terminal it needs --yes.

    Each is tried by itself; the exit code is 1 if the server refused one.

    \b
    Examples:
      ternmq transaction commit 01E6E1FC7D8B4C0001@broker-0@1f40
      ternmq transaction list --topic payments --json | jq -r .transaction_id | xargs ternmq transaction commit --yes
    """
    chosen = list(dict.fromkeys(ids))
    confirm_action(f"Commit {_transactions_text(chosen)}, so that their messages are delivered?", yes=yes)
    _resolve_transactions(chosen, "commit", endpoint, as_json=as_json)


@command.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@yes_option
@endpoint_option
@json_lines_option
def rollback(ids: tuple[str, ...], yes: bool, endpoint: str, as_json: bool) -> None:
    """Roll transactions back: their messages are never delivered. Asks first; without a terminal it needs --yes.

    Each is tried by itself; the exit code is 1 if the server refused one.

    \b
    Examples:
      ternmq transaction rollback 01E6E1FC7D8B4C0001@broker-0@1f40
      ternmq transaction rollback 01E6E1FC7D8B4C0001@broker-0@1f40 01E6E1FC7D8B4C0002@broker-0@2c18 --yes
    """
    chosen = list(dict.fromkeys(ids))
    confirm_action(f"Roll {_transactions_text(chosen)} back, so that their messages are never delivered?", yes=yes)
    _resolve_transactions(chosen, "rollback", endpoint, as_json=as_json)


def _transactions_text(ids: list[str]) -> str:
    return f"transaction {ids[0]}" if len(ids) == 1 else format_count(len(ids), "transaction")


def _resolve_transactions(ids: list[str], resolution: "Resolution", endpoint: str, *, as_json: bool) -> None:
    """End each transaction by itself; raises CommandFailure at the end if some were refused."""
    from ternmq.admin import messages as message_calls
    from ternmq_command.calls.admin import AdminClient

    refused = 0
    with AdminClient(endpoint) as admin:
        for transaction_id in ids:
            try:
                transaction = admin.send_call(message_calls.resolve_transaction(transaction_id, resolution))
            except CallRefused as refusal:
                if len(ids) == 1:
                    raise
                refused += 1
                echo(f"{transaction_id}: {refusal.message}", err=True)
                continue
            if as_json:
                print_json_line(transaction_record(transaction))
            else:
                echo(f"transaction {transaction_id} {DONE[resolution]}")
    if refused:
        raise CommandFailure(f"{refused} of {format_count(len(ids), 'transaction')} could not be {DONE[resolution]}")


def transaction_record(transaction: "OpenTransaction") -> dict[str, object]:
    return {
        "transaction_id": transaction.transaction_id,
        "topic": transaction.topic,
        "message_id": transaction.message_id,
        "state": transaction.state,
        "stored": iso_or_none(transaction.stored, timespec="milliseconds"),
        "checks": transaction.checks,
        "next_check": iso_or_none(transaction.next_check, timespec="milliseconds"),
        "sender": transaction.sender or None,
    }
