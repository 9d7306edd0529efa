"""`ternmq status`: prints one line for each component; its exit code is for scripts."""

from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import print_json, print_records

if TYPE_CHECKING:
    from ternmq_protos.admin_v1 import admin_pb2

NOT_WELL = 1


@click.command()
@endpoint_option
@json_option
def command(endpoint: str, as_json: bool) -> int:
    """Show whether each component is well: the server at the endpoint, its workers, the registry, all brokers.

    Exit codes: 0 all are well; 1 one is not; 3 nothing answers at the endpoint. `ternmq doctor` looks further.

    \b
    Examples:
      ternmq status
      ternmq status --json | jq -r '.components[] | select(.well | not).name'
      ternmq status > status.txt || cat status.txt
    """
    from ternmq_command.calls.watching import WatchingClient

    with WatchingClient(endpoint) as client:
        answer = client.get_status()
    record = status_record(answer)
    components = record["components"]
    assert isinstance(components, list)
    if as_json:
        print_json(record)
    else:
        rows = [{**each, "state": "well" if each["well"] else "NOT WELL"} for each in components]
        columns = ("component", "name", "state", "said")
        print_records([{name: row[name] for name in columns} for row in rows], as_json=False, nothing="")
    return 0 if record["well"] else NOT_WELL


def status_record(answer: "admin_pb2.GetStatusResponse") -> dict[str, object]:
    """Return the record of a status: of all together, and of each component."""
    components = [
        {"component": each.kind, "name": each.name, "well": each.well, "said": each.said or None}
        for each in answer.components
    ]
    return {"well": all(each["well"] for each in components), "version": answer.version, "components": components}
