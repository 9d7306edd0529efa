"""The subcommand of `ternmq proxy`: list."""

from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import iso_or_none, print_records
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from ternmq.admin.proxies import Proxy


@click.command(name="list")
@endpoint_option
@json_option
def list_proxies(endpoint: str, as_json: bool) -> None:
    """List the proxies of a cluster, with the state that each reports every two seconds.

    A proxy that ends leaves the list immediately, one that is killed when its lease ends. `asked` marks the proxy at
    the endpoint; while the registry is away it is the only one.

    \b
    Examples:
      ternmq proxy list
      ternmq proxy list --json | jq -r '.[] | select(.load.problem).name'
    """
    from ternmq.admin import proxies
    from ternmq_command.calls.admin import send_call

    found = send_call(endpoint, proxies.list_proxies())
    records = [_proxy_record(each) if as_json else _table_row(each) for each in found.proxies]
    print_records(records, as_json=as_json, nothing="no proxies")
    if found.registry_problem:
        echo(f"others are not known, as the registry can't be reached: {found.registry_problem}", err=True)


def _proxy_record(proxy: "Proxy") -> dict[str, object]:
    load = proxy.load
    return {
        "name": proxy.name,
        "address": proxy.address,
        "asked": proxy.asked,
        "version": proxy.version,
        "started": iso_or_none(proxy.started),
        "processes": proxy.processes,
        "lease_end": iso_or_none(proxy.lease_end),
        "load": {
            "connections": load.connections,
            "clients": load.clients,
            "calls": load.calls,
            "call_p99_ms": load.call_p99_ms,
            "problem": load.problem or None,
        },
    }


def _table_row(proxy: "Proxy") -> dict[str, object]:
    """Return the row of a proxy in the table."""
    load = proxy.load
    return {
        "name": proxy.name,
        "address": proxy.address,
        "asked": proxy.asked,
        "version": proxy.version,
        "processes": proxy.processes,
        "connections": load.connections,
        "clients": load.clients,
        "calls/s": None if load.calls is None else f"{load.calls:.1f}",
        "p99": None if load.call_p99_ms is None else f"{load.call_p99_ms:g} ms",
        "lease_end": iso_or_none(proxy.lease_end),
        "amiss": load.problem or None,
    }


COMMANDS = (list_proxies,)
