"""`ternmq dlq`: lists, shows, resends, exports and purges the dead letters of a group."""

import itertools
from datetime import datetime
from typing import IO, TYPE_CHECKING, Unpack

import click

from ternmq_command.dlq import purge as dlq_purge
from ternmq_command.dlq import resend as dlq_resend
from ternmq_command.dlq.letter_selection import (
    SelectionOptions,
    broker_option,
    build_selection,
    open_dead_letters,
    range_options,
    report_none,
    selection_options,
)
from ternmq_command.message.fields import LETTER_FIELDS
from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import endpoint_option, json_lines_option, json_option, raw_option
from ternmq_command.terminal.output import format_count, format_json, print_full_message, print_json, print_stream
from ternmq_command.terminal.printing import echo
from ternmq_command.terminal.template import Template, check_one_form, format_option
from ternmq_common.process.private_files import private_umask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq.messages.message_view import MessageView
    from ternmq_command.dlq.dead_letters import DeadLetters

# The longest text of digits that can be an offset; a message id is longer.
OFFSET_DIGITS_MAX = 18


@click.group(cls=NearestGroup)
def command() -> None:
    """List the dead letters of a consumer group, deliver them again, export or remove them.

    A dead letter is a message that the group did not acknowledge in any of its attempts, or that a consumer forwarded.

    \b
    Examples:
      ternmq dlq list billing --since 2h
      ternmq dlq show billing 17
      ternmq dlq resend billing --key order-17
      ternmq dlq export billing letters.jsonl
      ternmq dlq purge billing --before 7d
    """


command.add_command(dlq_resend.command, "resend")
command.add_command(dlq_purge.command, "purge")


@command.command(name="list")
@click.argument("group")
@range_options
@click.option("--max", "letters_max", type=click.IntRange(min=1), help="Stop after this many.  [default: all]")
@endpoint_option
@json_lines_option
@format_option(*LETTER_FIELDS)
def list_letters(
    group: str,
    key: str | None,
    since: datetime | None,
    until: datetime | None,
    letters_max: int | None,
    broker: str,
    endpoint: str,
    as_json: bool,
    template: Template | None,
) -> None:
    """List the dead letters of GROUP, the oldest first.

    \b
    Examples:
      ternmq dlq list billing
      ternmq dlq list billing --since 2026-08-01T12:00 --until 2026-08-01T13:00
      ternmq dlq list billing --key order-17 --json | jq .offset
      ternmq dlq list billing --format '{offset} {reason} {body}'
    """
    check_one_form(template, as_json=as_json)
    from ternmq_command.dlq.dead_letters import LetterSelection, full_letter_record, letter_record

    with open_dead_letters(endpoint, group, broker) as (_, letters):
        found = letters.read_letters(LetterSelection(key=key, since=since, until=until))
        chosen = itertools.islice(found, letters_max)
        if template is not None:
            count = template.write_records(full_letter_record(view, with_broker=True) for view in chosen)
        else:
            records = (letter_record(view, with_broker=letters.is_spread) for view in chosen)
            count = print_stream(records, as_json=as_json)
        if not count:
            report_none(letters, group)


@command.command()
@click.argument("group")
@click.argument("letter", metavar="MESSAGE_ID|OFFSET")
@broker_option
@endpoint_option
@json_option
@format_option(*LETTER_FIELDS)
@raw_option
def show(
    group: str, letter: str, broker: str, endpoint: str, as_json: bool, template: Template | None, raw: bool
) -> None:
    """Show one dead letter of GROUP with its properties and its body: the one at OFFSET, or the newest of MESSAGE_ID.

    Where a group has dead letters on several brokers, --broker says whose offset it is.

    \b
    Examples:
      ternmq dlq show billing 17
      ternmq dlq show billing 01E6E1FC7D8B4C0001 --json | jq -r .body
    """
    check_one_form(template, as_json=as_json)
    from ternmq_command.dlq.dead_letters import full_letter_record

    with open_dead_letters(endpoint, group, broker) as (_, letters):
        view = _find_letter(letters, letter)
        if view is None:
            raise CommandFailure(f"group {group} has no dead letter {letter}")
        record = full_letter_record(view, with_broker=letters.is_spread or template is not None)
    if template is not None:
        template.write_record(record, raw=raw)
    elif as_json:
        print_json(record)
    else:
        print_full_message(record, raw=raw)


def _find_letter(letters: "DeadLetters", name: str) -> "MessageView | None":
    is_offset = name.isascii() and name.isdigit() and len(name) <= OFFSET_DIGITS_MAX
    return letters.read_at(int(name)) if is_offset else letters.find_by_id(name)


@command.command()
@click.argument("group")
@click.argument("file", type=click.Path(allow_dash=True))
@selection_options
@endpoint_option
def export(group: str, file: str, broker: str, endpoint: str, **options: Unpack[SelectionOptions]) -> None:
    """Write dead letters of GROUP to FILE (- is standard output), all of them unless options say which.

    Each line is a JSON object: offset, ids, origin, attempts, reason, tag, keys, all properties, times, and the body,
    as text if it is UTF-8 and as body_base64 if not.

    \b
    Examples:
      ternmq dlq export billing letters.jsonl
      ternmq dlq export billing - --since 2h | jq -r .body
      ternmq dlq export billing one.jsonl --offset 17
    """
    selection = build_selection(options)
    with open_dead_letters(endpoint, group, broker) as (_, letters):
        try:
            with private_umask(), click.open_file(file, "w", encoding="utf-8") as out:
                count = _write_letters(out, letters.read_letters(selection), with_broker=letters.is_spread)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise WrongUsage(f"can't write {file}: {error.strerror}") from None
        if count:
            echo(f"exported {format_count(count, 'dead letter')} of group {group}", err=True)
        elif not letters.missing:
            report_none(letters, group)
        if letters.missing:
            raise CommandFailure(f"group {group} has no dead letter with {', '.join(letters.missing)}")


def _write_letters(out: "IO[str]", letters: "Iterator[MessageView]", *, with_broker: bool) -> int:
    from ternmq_command.dlq.dead_letters import full_letter_record

    count = 0
    for view in letters:
        out.write(format_json(full_letter_record(view, with_broker=with_broker)) + "\n")
        count += 1
    return count
