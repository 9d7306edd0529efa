"""`ternmq shard`: lists and shows shards, moves and elects leaders, adds and removes replicas."""

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from ternmq_command.shard.records import format_position, replica_record, shard_record, shard_row
from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.name_suggestions import suggest_names
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import DurationParam, endpoint_option, json_option
from ternmq_command.terminal.output import format_count, format_record, format_table, print_json, print_records
from ternmq_command.terminal.poll_intervals import poll_intervals
from ternmq_command.terminal.printing import echo, echo_lines
from ternmq_common.printable import cut_text

if TYPE_CHECKING:
    from ternmq.admin.brokers import Broker, Replica
    from ternmq_command.calls.admin import AdminClient

TIMEOUT = timedelta(seconds=30)


@click.group(cls=NearestGroup)
def command() -> None:
    """Show and change the replicas of brokers: which one leads, and which are in sync.

    A shard has the name of its broker: one process, or with `ternmq broker --replicas` several, each with a copy. One
    of them leads, and proxies connect to it. A message is acknowledged when all in-sync replicas have it, so any of
    them can become the leader when the leader is lost, which happens automatically.

    \b
    Examples:
      ternmq shard list
      ternmq shard show broker-0
      ternmq shard move-leader broker-0 b
      ternmq shard add-replica broker-0
      ternmq shard remove-replica broker-0 c
      ternmq shard elect --unclean broker-0 c
    """


@command.command(name="list")
@endpoint_option
@json_option
def list_shards(endpoint: str, as_json: bool) -> None:
    """List all shards and their replicas.

    Each replica's name is followed by its state: leader, in-sync or behind, and away if it does not run.

    \b
    Examples:
      ternmq shard list
      ternmq shard list --json | jq -r '.[] | select(.in_sync < .min_in_sync).shard'
    """
    from ternmq.admin import brokers as broker_calls
    from ternmq_command.calls.admin import send_call

    brokers = send_call(endpoint, broker_calls.list_brokers())
    records = [shard_record(broker) if as_json else shard_row(broker) for broker in brokers]
    print_records(records, as_json=as_json, nothing="no brokers")


@command.command()
@click.argument("shard")
@endpoint_option
@json_option
def show(shard: str, endpoint: str, as_json: bool) -> None:
    """Show SHARD with a line for each replica: the end of its log, and how many bytes it is behind the leader.

    \b
    Examples:
      ternmq shard show broker-0
      ternmq shard show broker-0 --json | jq '.replicas[] | select(.in_sync | not)'
    """
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        broker = _find_shard(admin, shard)
    record = shard_record(broker)
    if as_json:
        print_json(record)
        return
    echo_lines(format_record({name: value for name, value in record.items() if name != "replicas"}))
    if broker.replicas:
        lines = [replica_record(replica, broker) for replica in broker.replicas]
        for line in lines:
            del line["store"]
        echo_lines("\n" + format_table(lines))
    else:
        echo("it has no replicas")


@command.command(name="move-leader")
@click.argument("shard")
@click.argument("replica")
@click.option(
    "--timeout", type=DurationParam(), default=TIMEOUT, show_default="30s", help="How long to wait until it leads."
)
@endpoint_option
@json_option
def move_leader(shard: str, replica: str, timeout: timedelta, endpoint: str, as_json: bool) -> None:
    """Make REPLICA the leader of SHARD, and wait until it leads. It must run and be in sync; nothing is lost.

    \b
    Examples:
      ternmq shard move-leader broker-0 b
      ternmq shard move-leader broker-0 b --timeout 2m
    """
    from ternmq.admin import shards
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        requested = admin.send_call(shards.move_leader(shard, replica))
        broker = _wait_for_leader(admin, requested, replica, timeout)
    if as_json:
        print_json(shard_record(broker))
    else:
        echo(f"replica {replica} leads shard {shard}, in epoch {broker.epoch}")


def _wait_for_leader(admin: "AdminClient", requested: "Broker", replica: str, timeout: timedelta) -> "Broker":
    """Wait until this replica leads, and return the broker; raises CommandFailure if it does not."""
    end = time.monotonic() + timeout.total_seconds()
    broker = requested
    while broker.leader is None or broker.leader.name != replica:
        # The answer of a proxy that does not know of the request yet has no later epoch.
        if broker.epoch > requested.epoch and broker.move_to != replica:
            leader = "another one" if broker.leader is None else f"replica {broker.leader.name}"
            raise CommandFailure(f"shard {broker.name} is led by {leader} now", hint="repeat the command")
        if time.monotonic() >= end:
            raise CommandFailure(
                f"replica {replica} does not lead shard {broker.name} after {timeout.total_seconds():g} s",
                hint=f"the request stays in force; `ternmq shard show {broker.name}` shows when it leads, and whether "
                "a leader is live",
            )
        time.sleep(poll_intervals().leader_s)
        broker = _find_shard(admin, broker.name)
    return broker


@command.command()
@click.argument("shard")
@click.argument("replica")
@click.option("--unclean", is_flag=True, help="Confirm that messages may be lost.")
@yes_option
@endpoint_option
@json_option
def elect(shard: str, replica: str, unclean: bool, yes: bool, endpoint: str, as_json: bool) -> None:
    """Make REPLICA the leader of SHARD although it is not in sync. Asks first; without a terminal it needs --yes.

    Use it when no leader is live, and no in-sync replica will come back: messages that only those have are lost,
    acknowledged or not. The other replicas become copies of REPLICA. An in-sync replica that is live becomes leader
    automatically.

    \b
    Examples:
      ternmq shard elect --unclean broker-0 c
      ternmq shard elect --unclean broker-0 c --yes
    """
    if not unclean:
        raise WrongUsage("an in-sync replica is elected automatically; for another one give --unclean")
    from ternmq.admin import shards
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        broker = _find_shard(admin, shard)
        echo_lines(_describe_losses(broker, _find_replica(broker, replica)), err=True)
        confirm_action(
            f"Make replica {replica} the leader of shard {shard}, and lose the messages that it does not have?", yes=yes
        )
        elected = admin.send_call(shards.elect_replica(shard, replica))
    if as_json:
        print_json({**shard_record(elected.broker), "lost_bytes": elected.lost_bytes})
        return
    lost = f"{format_count(elected.lost_bytes, 'byte')} of the log, at least, are lost" if elected.lost_bytes else ""
    echo(f"replica {replica} leads shard {shard}, in epoch {elected.broker.epoch}" + (f"; {lost}" if lost else ""))


def _describe_losses(broker: "Broker", candidate: "Replica") -> str:
    others = [replica for replica in broker.replicas if replica.in_sync and replica != candidate]
    lines = [f"replica {candidate.name} has the log up to {format_position(candidate)}"]
    lines += [
        f"replica {replica.name}, which is in sync, had it up to {format_position(replica)}" for replica in others
    ]
    known = max((replica.position for replica in others), default=0) - candidate.position
    if candidate.in_sync:
        lines.append(f"replica {candidate.name} is in sync: it has all that was acknowledged")
    elif known > 0:
        lines.append(
            f"at least {format_count(known, 'byte')} of messages are lost, and those stored after these reports"
        )
    else:
        lines.append("it is not known what is lost: messages stored after these reports")
    return "\n".join(lines)


@command.command(name="add-replica")
@click.argument("shard")
@endpoint_option
@json_option
def add_replica(shard: str, endpoint: str, as_json: bool) -> None:
    """Allow SHARD one more replica; then start its process, with a data directory of its own.

    \b
    Examples:
      ternmq shard add-replica broker-0
      ternmq broker --broker-name broker-0 --replicas 3 --replica-name c --data-dir /var/lib/c
    """
    from ternmq.admin import shards
    from ternmq_command.calls.admin import send_call

    broker = send_call(endpoint, shards.add_replica(shard))
    if as_json:
        print_json(shard_record(broker))
        return
    wanted, there = broker.replicas_wanted, len(broker.replicas)
    echo(f"shard {shard} may have {format_count(wanted, 'replica')}, and has {there}: start another one with")
    echo(f"  ternmq broker --broker-name {shard} --replicas {wanted} --replica-name NAME --data-dir DIR ...")


@command.command(name="remove-replica")
@click.argument("shard")
@click.argument("replica")
@yes_option
@endpoint_option
@json_option
def remove_replica(shard: str, replica: str, yes: bool, endpoint: str, as_json: bool) -> None:
    """Remove REPLICA from SHARD. Asks first; without a terminal it needs --yes.

    It must not lead, and enough others must be in sync. Stop its process: its store can take part again with --rejoin
    only.

    \b
    Examples:
      ternmq shard remove-replica broker-0 c
      ternmq shard remove-replica broker-0 c --yes
    """
    from ternmq.admin import shards
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:

        def build_question() -> str:
            broker = _find_shard(admin, shard)
            gone = _find_replica(broker, replica)
            left = sum(each.in_sync for each in broker.replicas if each != gone)
            return f"Remove replica {replica} of shard {shard} with its copy, and keep {left} in sync?"

        confirm_action(build_question, yes=yes)
        broker = admin.send_call(shards.remove_replica(shard, replica))
    if as_json:
        print_json(shard_record(broker))
    else:
        echo(f"replica {replica} of shard {shard} removed; it has {format_count(len(broker.replicas), 'replica')} now")


def _find_shard(admin: "AdminClient", name: str) -> "Broker":
    from ternmq.admin import brokers as broker_calls

    brokers = {broker.name: broker for broker in admin.send_call(broker_calls.list_brokers())}
    if name not in brokers:
        hint = suggest_names(name, brokers) or "`ternmq shard list` shows all"
        raise CommandFailure(f"there is no shard {cut_text(name)!r}", hint=hint)
    return brokers[name]


def _find_replica(broker: "Broker", name: str) -> "Replica":
    replicas = {replica.name: replica for replica in broker.replicas}
    if name not in replicas:
        hint = suggest_names(name, replicas) or f"it has {', '.join(replicas) or 'none'}"
        raise CommandFailure(f"shard {broker.name} has no replica {cut_text(name)!r}", hint=hint)
    return replicas[name]
