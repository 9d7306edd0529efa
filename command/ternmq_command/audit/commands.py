"""`ternmq audit`: shows the audit log of a server."""

import itertools
from datetime import datetime
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.options import TimeParam, endpoint_option, json_lines_option
from ternmq_command.terminal.output import format_count, iso_or_none, print_stream
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ternmq.admin.audit import AuditEntry, AuditPage
    from ternmq_command.terminal.output import Record

SHOWN_DEFAULT = 100


@click.command()
@click.option("--user", default="", help="Only calls of this access key.")
@click.option("--call", default="", help="Only this call, as in DeleteTopic.")
@click.option("--resource", default="", help="Only calls whose resource contains this text, as in Topic:orders.")
@click.option("--allowed/--refused", "allowed", default=None, help="Only calls that were allowed, or refused.")
@click.option("--since", type=TimeParam(), help="Only calls since this time: ISO 8601, or 2h for two hours ago.")
@click.option("--until", type=TimeParam(), help="Only calls before this time.")
@click.option(
    "--max",
    "entries_max",
    type=click.IntRange(min=1),
    default=SHOWN_DEFAULT,
    show_default=True,
    help="Stop after this many.",
)
@endpoint_option
@json_lines_option
def command(
    user: str,
    call: str,
    resource: str,
    allowed: bool | None,
    since: datetime | None,
    until: datetime | None,
    entries_max: int,
    endpoint: str,
    as_json: bool,
) -> None:
    """Show the audit log of the server at the endpoint, the newest first: calls that change something, and refusals.

    Only super users may read it. Each proxy of a cluster has an audit log of its own: query each of them. A server of
    several processes (`--workers`) answers with the entries of all.

    \b
    Examples:
      ternmq audit --since 2h
      ternmq audit --refused --user alice
      ternmq audit --call DeleteTopic --resource Topic:orders --max 10
      ternmq audit --since 1d --max 100000 --json | jq -r .user | sort | uniq -c
    """
    from ternmq.admin import audit as audit_calls
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        pages = _AuditPages(
            admin.send_pages(
                lambda page: audit_calls.audit_page(
                    page, user=user, call=call, resource=resource, allowed=allowed, since=since, until=until
                )
            )
        )
        found = pages.read_entries()
        records = map(entry_record, itertools.islice(found, entries_max))
        count = print_stream(records if as_json else map(_table_row, records), as_json=as_json)
        has_more = count == entries_max and next(found, None) is not None
    if pages.damaged:
        echo(
            f"ternmq: {format_count(pages.damaged, 'line')} of the audit log of {pages.server} are no entries", err=True
        )
    if has_more:
        echo(f"ternmq: the newest {count} at {pages.server}; --max shows more", err=True)
    elif not (count or as_json):
        echo(f"no such entries at {pages.server}", err=True)


class _AuditPages:
    """Reads the entries of all pages, and collects the name of the server and the number of damaged lines."""

    def __init__(self, pages: "Iterable[AuditPage]") -> None:
        self._pages = pages
        self.server = ""
        self.damaged = 0

    def read_entries(self) -> "Iterator[AuditEntry]":
        for page in self._pages:
            self.server = page.server
            self.damaged += page.damaged
            yield from page.entries


def entry_record(entry: "AuditEntry") -> dict[str, object]:
    """Return the record of an entry; missing fields are null."""
    return {
        "time": iso_or_none(entry.time, timespec="milliseconds"),
        "user": entry.user or None,
        "call": entry.call,
        "resource": entry.resource or None,
        "allowed": entry.allowed,
        "why": entry.why,
        "source": entry.source or None,
        "client_id": entry.client_id or None,
        "left_out": entry.left_out,
        "process": entry.process or None,
    }


def _table_row(record: "Record") -> dict[str, object]:
    return {name: value for name, value in record.items() if name not in ("client_id", "left_out", "process")}
