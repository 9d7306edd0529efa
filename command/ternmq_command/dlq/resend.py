"""`ternmq dlq resend`: delivers dead letters again."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

import click

from ternmq_command.dlq.letter_selection import (
    SelectionOptions,
    build_selection,
    is_given,
    open_dead_letters,
    report_none,
    selection_options,
)
from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.options import endpoint_option, json_lines_option
from ternmq_command.terminal.output import format_count, print_json_line, print_stream
from ternmq_command.terminal.paging import split_pages
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from ternmq.admin.messages import ResentDeadLetter
    from ternmq_command.calls.admin import AdminClient
    from ternmq_command.dlq.dead_letters import DeadLetters, LetterSelection

BATCH_MAX = 256


@click.command()
@click.argument("group")
@selection_options
@click.option("--to-topic", default="", metavar="TOPIC", help="Send them to this topic, for all of its groups.")
@click.option("--dry-run", is_flag=True, help="List what would be resent, and change nothing.")
@yes_option
@endpoint_option
@json_lines_option
def command(
    group: str,
    to_topic: str,
    dry_run: bool,
    yes: bool,
    broker: str,
    endpoint: str,
    as_json: bool,
    **options: Unpack[SelectionOptions],
) -> None:
    """Deliver dead letters of GROUP again, with new attempts. Asks first; without a terminal it needs --yes.

    They go to this group only, through its retry topic; those of a FIFO group are sent to the topic that they came
    from, for all of its groups. The letters stay in the dead letter topic, which is a log: a letter that is resent
    twice is delivered twice. The exit code is 1 if some could not be resent.

    \b
    Examples:
      ternmq dlq resend billing --all
      ternmq dlq resend billing --since 2h --dry-run
      ternmq dlq resend billing --offset 17 --offset 18
      ternmq dlq resend billing --key order-17 --to-topic orders-repaired --yes
    """
    if not is_given(options):
        raise WrongUsage("choose letters: --all, --offset, --id, --key, --since or --until")
    selection = build_selection(options)
    with open_dead_letters(endpoint, group, broker) as (admin, letters):
        if dry_run:
            _print_dry_run(letters, selection, group, as_json=as_json)
            return
        chosen = letters.find_offsets(selection)
        if not chosen and not letters.missing:
            report_none(letters, group)
            return
        where = f"to {to_topic}" if to_topic else "again"
        count = sum(map(len, chosen.values()))
        confirm_action(f"Deliver {format_count(count, 'dead letter')} of group {group} {where}?", yes=yes)
        resending = ResendRun(admin, group, to_topic, with_broker=letters.is_spread, as_json=as_json)
        resending.resend_letters(chosen, letters.missing)


def _print_dry_run(letters: "DeadLetters", selection: "LetterSelection", group: str, *, as_json: bool) -> None:
    from ternmq_command.dlq.dead_letters import letter_record

    records = (letter_record(view, with_broker=letters.is_spread) for view in letters.read_letters(selection))
    count = print_stream(records, as_json=as_json)
    for name in letters.missing:
        echo(f"{name}: there is no such dead letter", err=True)
    if count:
        echo(f"{count} would be resent; nothing was changed (--dry-run)", err=True)
    elif not letters.missing:
        report_none(letters, group)


class ResendRun:
    """Resends letters in batches and counts the results."""

    def __init__(self, admin: "AdminClient", group: str, to_topic: str, *, with_broker: bool, as_json: bool) -> None:
        self._admin, self._group, self._to_topic = admin, group, to_topic
        self._with_broker, self._as_json = with_broker, as_json
        self._resent = self._failed = 0

    def resend_letters(self, places: Mapping[str, Sequence[int]], missing: Sequence[str]) -> None:
        """Resend all letters, also after failures; raises CommandFailure at the end if some failed."""
        try:
            for name in missing:
                self._report_failure(name, "there is no such dead letter")
            for broker, queue_offsets in places.items():
                for page in split_pages(queue_offsets, BATCH_MAX):
                    for letter in self._resend_batch(broker, page):
                        self._count_result(broker, letter)
        finally:
            self._print_summary()
        if self._failed:
            raise CommandFailure(
                f"{self._failed} of {format_count(self._failed + self._resent, 'dead letter')} could not be resent"
            )

    def _resend_batch(self, broker: str, queue_offsets: list[int]) -> "Iterator[ResentDeadLetter]":
        from ternmq.admin import messages as message_calls

        answers = self._admin.send_call(
            message_calls.resend_dead_letters(self._group, queue_offsets, broker=broker, to_topic=self._to_topic)
        )
        yield from answers
        for queue_offset in sorted(set(queue_offsets) - {answer.offset for answer in answers}):
            self._report_failure(self._letter_name(broker, queue_offset), "the server did not answer for it")

    def _letter_name(self, broker: str, queue_offset: int) -> str:
        return f"offset {queue_offset} on {broker}" if self._with_broker else f"offset {queue_offset}"

    def _count_result(self, broker: str, letter: "ResentDeadLetter") -> None:
        if letter.error is not None:
            self._report_failure(self._letter_name(broker, letter.offset), str(letter.error))
            return
        self._resent += 1
        if self._as_json:
            named = {"broker": broker} if self._with_broker else {}
            print_json_line({**named, "offset": letter.offset, "topic": letter.topic, "message_id": letter.message_id})

    def _report_failure(self, name: str, reason: str) -> None:
        self._failed += 1
        echo(f"{name}: {reason}", err=True)

    def _print_summary(self) -> None:
        if not self._resent:
            return
        where = f" to {self._to_topic}" if self._to_topic else ""
        echo(f"resent {format_count(self._resent, 'dead letter')} of group {self._group}{where}", err=self._as_json)
        echo("they stay in the dead letter topic: resending them again delivers them again", err=True)
