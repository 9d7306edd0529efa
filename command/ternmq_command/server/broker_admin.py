"""The subcommands of `ternmq broker`: list, drain, resume, permission, remove."""

from typing import TYPE_CHECKING

import click

from ternmq_command.server.draining import show_remaining, wait_until_empty
from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.options import endpoint_option, json_lines_option, json_option
from ternmq_command.terminal.output import iso_or_none, print_json, print_records
from ternmq_command.terminal.printing import echo
from ternmq_common.catalog.removal_warning import has_nothing_to_lose, removal_warning

if TYPE_CHECKING:
    from ternmq.admin.brokers import Broker, BrokerLoad
    from ternmq.admin.requests.words import Permission

# The keys of `ternmq.admin.requests.words.PERMISSIONS`, which needs the protocol's code to be imported.
PERMISSION_NAMES = ("read-write", "read", "write", "none")


@click.command(name="list")
@endpoint_option
@json_option
def list_brokers(endpoint: str, as_json: bool) -> None:
    """List all brokers. `clock` is how far a broker's clock is ahead of the registry's, which decides when its lease
    ends.

    \b
    Examples:
      ternmq broker list
      ternmq broker list --json | jq -r '.[] | select(.live | not).name'
    """
    from ternmq.admin import brokers as broker_calls
    from ternmq_command.calls.admin import send_call

    brokers = send_call(endpoint, broker_calls.list_brokers())
    records = [broker_record(broker) for broker in brokers]
    print_records(records if as_json else list(map(_table_row, records)), as_json=as_json, nothing="no brokers")


def _table_row(record: dict[str, object]) -> dict[str, object]:
    load = record["load"]
    assert isinstance(load, dict)
    shown = {name: value for name, value in record.items() if name not in ("load", "epoch", "started")}
    skew_s = load["clock_skew_s"]
    clock = None if skew_s is None else f"{skew_s:+.1f} s"
    return {
        **shown,
        "clock": clock,
        "in/s": f"{load['messages_in']:.0f}",
        "out/s": f"{load['messages_out']:.0f}",
    }


@click.command()
@click.argument("name")
@click.option("--wait", is_flag=True, help="Wait until nothing remains.")
@endpoint_option
@json_lines_option
def drain(name: str, wait: bool, endpoint: str, as_json: bool) -> None:
    """Drain broker NAME: it delivers what it has but stores no new messages; and show what remains.

    The remaining work is messages that some group has not finished, timed messages, and transactions. With --wait the
    command ends when there are none, so that the broker can be stopped and removed. The remaining work is printed again
    whenever it changes.

    \b
    Examples:
      ternmq broker drain broker-1
      ternmq broker drain broker-1 --wait && ternmq broker remove broker-1 --yes
    """
    from ternmq.admin import brokers as broker_calls
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        admin.send_call(broker_calls.update_broker(name, draining=True))
        if not as_json:
            echo(f"broker {name} is draining")
        if wait:
            wait_until_empty(admin, name, as_json=as_json)
        else:
            show_remaining(name, admin.send_call(broker_calls.broker_remaining(name)), as_json=as_json)


@click.command()
@click.argument("name")
@endpoint_option
@json_option
def resume(name: str, endpoint: str, as_json: bool) -> None:
    """Let broker NAME, which is draining, store messages again.

    \b
    Examples:
      ternmq broker resume broker-1
    """
    from ternmq.admin import brokers as broker_calls
    from ternmq_command.calls.admin import send_call

    broker = send_call(endpoint, broker_calls.update_broker(name, draining=False))
    if as_json:
        print_json(broker_record(broker))
    else:
        echo(f"broker {name} stores messages again")


@click.command()
@click.argument("name")
@click.argument("permission", type=click.Choice(PERMISSION_NAMES), metavar="|".join(PERMISSION_NAMES))
@endpoint_option
@json_option
def permission(name: str, permission: "Permission", endpoint: str, as_json: bool) -> None:
    """Set what clients may do with all queues of broker NAME.

    \b
    Examples:
      ternmq broker permission broker-1 read
      ternmq broker permission broker-1 read-write
    """
    from ternmq.admin import brokers as broker_calls
    from ternmq_command.calls.admin import send_call

    broker = send_call(endpoint, broker_calls.update_broker(name, permission=permission))
    if as_json:
        print_json(broker_record(broker))
    else:
        echo(f"broker {name} has permission {permission}")


@click.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Remove even if messages would be lost.")
@yes_option
@endpoint_option
@json_option
def remove(name: str, force: bool, yes: bool, endpoint: str, as_json: bool) -> None:
    """Remove broker NAME from the cluster and from all topics. Asks first; without a terminal it needs --yes.

    It must be drained before, whether it runs or not; otherwise the command prints what would be lost, as far as the
    broker reported it, and needs --force. A broker process that still runs ends. Started with --rejoin, it is back with
    its messages, on its former topics.

    \b
    Examples:
      ternmq broker remove broker-1
      ternmq broker remove broker-1 --force --yes
    """
    from ternmq.admin import brokers as broker_calls
    from ternmq_command.calls.admin import send_call

    confirm_action(f"Remove broker {name} from the cluster, with what it holds?", yes=yes)
    removed = send_call(endpoint, broker_calls.remove_broker(name, force=force))
    lost = removed.lost
    if as_json:
        print_json(
            {
                "name": name,
                "removed": True,
                "topics": list(removed.topics),
                "lost": None if lost is None else _load_record(lost),
            }
        )
        return
    echo(f"broker {name} removed")
    if lost is not None and not (has_nothing_to_lose(lost) and lost.messages == 0):
        echo(f"lost with it: {removal_warning(removed.topics, lost)}", err=True)


def broker_record(broker: "Broker") -> dict[str, object]:
    return {
        "name": broker.name,
        "address": broker.address or None,
        "live": broker.live,
        "permission": broker.permission,
        "draining": broker.draining,
        "epoch": broker.epoch,
        "version": broker.version or None,
        "started": iso_or_none(broker.started),
        "lease_end": iso_or_none(broker.lease_end),
        "load": _load_record(broker.load),
    }


def _load_record(load: "BrokerLoad") -> dict[str, object]:
    return {
        "messages_in": load.messages_in,
        "messages_out": load.messages_out,
        "proxies": load.proxies,
        "transactions": load.transactions,
        "disk_used": load.disk_used,
        "messages": load.messages,
        "unfinished": load.unfinished,
        "timers": load.timers,
        "clock_skew_s": load.clock_skew,
    }


COMMANDS = (list_brokers, drain, resume, permission, remove)
