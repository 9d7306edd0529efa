"""`ternmq cluster`: rebalances topics over the brokers of a cluster."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from ternmq_command.cluster.plan import NoPlan, RebalancePlan, plan_rebalance
from ternmq_command.server.draining import wait_until_empty
from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import endpoint_option, json_lines_option
from ternmq_command.terminal.output import format_count, format_table, print_json_line
from ternmq_command.terminal.printing import echo, echo_lines
from ternmq_common.printable import cut_text

if TYPE_CHECKING:
    from ternmq_command.calls.admin import AdminClient

# Topics of a plan that are printed; --json has all.
SHOWN_MAX = 50


@click.group(cls=NearestGroup)
def command() -> None:
    """Administer all brokers of a cluster together.

    \b
    Examples:
      ternmq cluster rebalance --dry-run
      ternmq cluster rebalance --off broker-1
    """


@command.command()
@click.option("--off", "off", multiple=True, metavar="BROKER", help="Empty that broker; repeatable.")
@click.option("--topic", "patterns", multiple=True, metavar="PATTERN", help="Only topics such as 'eu.*'; repeatable.")
@click.option(
    "--fifo", is_flag=True, help="FIFO topics too: message groups change queues, and their order may break once."
)
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("--no-wait", is_flag=True, help="Do not wait until drained brokers are empty.")
@yes_option
@endpoint_option
@json_lines_option
def rebalance(
    off: tuple[str, ...],
    patterns: tuple[str, ...],
    fifo: bool,
    dry_run: bool,
    no_wait: bool,
    yes: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Spread new messages evenly over all brokers: show a plan, and carry it out after confirmation.

    Every topic gets queues on every broker that accepts messages, for example after a broker was added or came back.
    Stored messages do not move, they are consumed where they are. With --off a broker is drained, and the command waits
    until its messages are consumed, its timed messages delivered and its transactions ended; remove it with `ternmq
    broker remove` afterwards. After an interruption, the same command continues.

    FIFO topics are not changed unless --fifo is given: with more queues a message group goes to another queue, and
    messages that wait in the old one may be delivered after newer ones.

    \b
    Examples:
      ternmq cluster rebalance --dry-run
      ternmq cluster rebalance --topic 'eu.*' --yes
      ternmq cluster rebalance --off broker-1 && ternmq broker remove broker-1 --yes
    """
    from ternmq_command.calls.admin import AdminClient

    if off and patterns:
        raise WrongUsage("--off empties a broker of all topics: it can't be combined with --topic")
    with AdminClient(endpoint) as admin:
        plan = _plan_rebalance(admin, off, patterns, fifo=fifo)
        if as_json:
            print_json_line(_plan_record(plan))
        else:
            echo_lines(_plan_text(plan))
        if dry_run:
            return
        if not plan.is_nothing:
            confirm_action("Carry out the plan?", yes=yes)
            _apply_plan(admin, plan, as_json=as_json)
        for name in [] if no_wait else sorted(set(off)):
            wait_until_empty(admin, name, as_json=as_json)


def _plan_rebalance(
    admin: "AdminClient", off: tuple[str, ...], patterns: tuple[str, ...], *, fifo: bool
) -> RebalancePlan:
    from ternmq.admin import brokers as broker_calls
    from ternmq.admin import topics as topic_calls

    topics = admin.send_call(topic_calls.list_topics())
    if patterns:
        topics = [topic for topic in topics if any(fnmatchcase(topic.name, pattern) for pattern in patterns)]
        if not topics:
            raise CommandFailure(f"no topic matches {' or '.join(patterns)}")
    brokers = admin.send_call(broker_calls.list_brokers())
    if len(brokers) < 2 and not any(topic.brokers for topic in topics):
        raise CommandFailure("this server has only one broker: there is nothing to balance")
    try:
        return plan_rebalance(brokers, topics, off=off, fifo=fifo)
    except NoPlan as why:
        raise CommandFailure(str(why)) from None


def _apply_plan(admin: "AdminClient", plan: RebalancePlan, *, as_json: bool) -> None:
    """Carry out the plan; queues are added before brokers are drained, so that every topic always has a broker."""
    from ternmq.admin import brokers as broker_calls
    from ternmq.admin import topics

    for widening in plan.widenings:
        admin.send_call(topics.update_topic(widening.topic, add_brokers=widening.added))
        if as_json:
            print_json_line({"done": "topic", "topic": widening.topic, "added": list(widening.added)})
    if plan.widenings and not as_json:
        echo(f"{format_count(len(plan.widenings), 'topic')} changed")
    for name in plan.emptied:
        admin.send_call(broker_calls.update_broker(name, draining=True))
        if as_json:
            print_json_line({"done": "drain", "broker": name})
        else:
            echo(f"broker {name} is draining")


def _plan_record(plan: RebalancePlan) -> dict[str, object]:
    topics = [
        {"topic": one.topic, "queues": one.queues, "brokers": list(one.brokers), "added": list(one.added)}
        for one in plan.widenings
    ]
    shares = [{"broker": name, "queues": now, "planned": then} for name, (now, then) in plan.shares.items()]
    return {"topics": topics, "drained": list(plan.emptied), "left": list(plan.left), "brokers": shares}


def _plan_text(plan: RebalancePlan) -> str:
    parts = []
    if plan.is_nothing:
        parts.append("nothing to do: every topic is on every broker that accepts messages")
    if plan.widenings:
        shown = [
            {"topic": one.topic, "queues on each": one.queues, "is on": list(one.brokers), "also on": list(one.added)}
            for one in plan.widenings[:SHOWN_MAX]
        ]
        parts.append(format_table(shown))
        if len(plan.widenings) > SHOWN_MAX:
            parts.append(f"and {format_count(len(plan.widenings) - SHOWN_MAX, 'topic')} more; --json shows all")
    if not plan.is_nothing:
        shares = [
            {"broker": name, "queues": now, "planned": "drained" if name in plan.emptied else then}
            for name, (now, then) in plan.shares.items()
        ]
        parts.append(format_table(shares))
    if plan.left:
        names = cut_text(", ".join(plan.left), 200)
        parts.append(f"not changed, since they are FIFO and --fifo is not given: {names}")
    return "\n".join(part.rstrip("\n") for part in parts)
