"""`ternmq version`: prints the version of this command and, with `--server`, of the server."""

import platform
from importlib import metadata

import click

from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import format_record, iso_or_none, print_json
from ternmq_command.terminal.printing import echo, echo_lines


@click.command()
@click.option("--server", is_flag=True, help="Print the server's version, start time and memory too.")
@endpoint_option
@json_option
def command(server: bool, endpoint: str, as_json: bool) -> None:
    """Print the version, with --server that of the server too.

    \b
    Examples:
      ternmq version
      ternmq version --server --json
    """
    record: dict[str, object] = {"ternmq": metadata.version("ternmq"), "python": platform.python_version()}
    if server:
        record |= server_record(endpoint)
    if as_json:
        print_json(record)
    elif server:
        echo_lines(format_record(record))
    else:
        echo(f"ternmq {record['ternmq']} (Python {record['python']})")


def server_record(endpoint: str) -> dict[str, object]:
    from ternmq.admin import brokers as broker_calls
    from ternmq_command.calls.admin import send_call

    info = send_call(endpoint, broker_calls.server_info())
    return {
        "server": info.version,
        "server_endpoint": endpoint,
        "server_started": iso_or_none(info.started),
        "server_resident_bytes": info.resident_bytes,
    }
