"""`ternmq client`: lists the connected clients."""

import itertools
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import endpoint_option, json_lines_option
from ternmq_command.terminal.output import format_count, iso_or_none, print_stream
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ternmq.admin.proxies import ClientPage, ConnectedClient
    from ternmq_command.terminal.output import Record

TOPICS_SHOWN = 3


@click.group(cls=NearestGroup)
def command() -> None:
    """List the connected clients.

    \b
    Examples:
      ternmq client list
      ternmq client list --group billing
    """


@command.command(name="list")
@click.option("--group", default="", help="Only the members of this consumer group.")
@click.option("--topic", default="", help="Only those that publish or subscribe to this topic.")
@click.option("--max", "clients_max", type=click.IntRange(min=1), help="Stop after this many.  [default: all]")
@endpoint_option
@json_lines_option
def list_clients(group: str, topic: str, clients_max: int | None, endpoint: str, as_json: bool) -> None:
    """List the clients of the server at the endpoint, or of all proxies of its cluster, by their ids.

    Language, version, host name and topics are those that a client reported last. A client of the remoting
    protocol is listed once for each of its groups.

    \b
    Examples:
      ternmq client list
      ternmq client list --group billing
      ternmq client list --topic orders --json | jq -r .address
    """
    from ternmq_command.calls.watching import WatchingClient

    with WatchingClient(endpoint) as client:
        pages = _ClientPages(client.list_clients(group=group, topic=topic))
        records = itertools.islice(map(client_record, pages.read_clients()), clients_max)
        shown = records if as_json else map(_table_row, records)
        count = print_stream(shown, as_json=as_json)
    for silent in pages.silent:
        echo(f"ternmq: no answer from {silent}; clients that are connected there are not listed", err=True)
    if not (count or as_json):
        echo("no such clients" if group or topic else "no clients", err=True)
    elif not as_json:
        echo(f"ternmq: {format_count(count, 'client')}", err=True)


class _ClientPages:
    """Reads the clients of all pages, and collects the proxies that did not answer (`silent`)."""

    def __init__(self, pages: "Iterable[ClientPage]") -> None:
        self._pages = pages
        self.silent: dict[str, None] = {}

    def read_clients(self) -> "Iterator[ConnectedClient]":
        for page in self._pages:
            self.silent |= dict.fromkeys(page.silent)
            yield from page.clients


def client_record(client: "ConnectedClient") -> dict[str, object]:
    """Return the record of a client; unknown fields are null."""
    kind = client.client_type
    return {
        "client_id": client.client_id,
        "address": client.address or None,
        "type": None if kind == "unspecified" or kind.isdigit() else kind,
        "protocol": client.protocol or None,
        "language": client.language.lower() or None,
        "version": client.version or None,
        "hostname": client.hostname or None,
        "group": client.group or None,
        "topics": list(client.topics),
        "topic_count": client.topic_count,
        "since": iso_or_none(client.since),
        "proxy": client.proxy or client.process,
        "process": client.process,
    }


def _table_row(record: "Record") -> dict[str, object]:
    topics, count = record["topics"], record["topic_count"]
    assert isinstance(topics, list)
    assert isinstance(count, int)
    shown = topics[:TOPICS_SHOWN]
    left_out = count - len(shown)
    hidden = {"topics", "topic_count", "hostname"}
    if record["process"] == record["proxy"]:  # a proxy of one process
        hidden.add("process")
    left = {name: value for name, value in record.items() if name not in hidden}
    return {**left, "topics": [*shown, f"+{left_out}"] if left_out else shown}
