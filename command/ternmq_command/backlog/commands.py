"""`ternmq backlog`: moves the messages that a group has not consumed to a topic with more queues."""

import sys
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import format_count, print_json
from ternmq_command.terminal.printing import echo, overwrite_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_command.backlog.move import MovePlan

DEFAULT_BATCH = 100


@click.group(cls=NearestGroup)
def command() -> None:
    """Move the backlog of a consumer group.

    \b
    Examples:
      ternmq backlog move billing --topic orders --to orders-backlog --queues 64
    """


@command.command()
@click.argument("group")
@click.option("--topic", required=True, help="The topic whose backlog moves.")
@click.option("--to", "target", required=True, metavar="TOPIC", help="Where it moves; created if it does not exist.")
@click.option("--queues", type=click.IntRange(min=1), required=True, help="Message queues of a topic that is created.")
@click.option(
    "--batch",
    "batch_max",
    type=click.IntRange(min=1, max=1000),
    default=DEFAULT_BATCH,
    show_default=True,
    help="Messages that are sent before the group's offset moves.",
)
@click.option("--include-in-flight", is_flag=True, help="Move although members of the group are consuming it.")
@yes_option
@endpoint_option
@json_option
def move(
    group: str,
    topic: str,
    target: str,
    queues: int,
    batch_max: int,
    include_in_flight: bool,
    yes: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Move the backlog of GROUP in a topic to a topic with more queues, so that more consumers can work on it.

    Stop the group's consumers of the topic first. Messages keep their ids, keys, tags, properties, bodies, born
    timestamps and message groups, and the order within a message group. Messages that are sent to the old topic from
    now on stay there, as do those that wait for a retry. Afterwards let consumers of the group subscribe to the new
    topic.

    The move can be stopped and repeated with the same command: it continues where it stopped, and no message is lost.
    At most one batch of a queue is delivered twice then. With --include-in-flight, messages in flight move too, and
    those acknowledged behind them: these are delivered twice.

    Asks first; without a terminal it needs --yes.

    \b
    Examples:
      ternmq backlog move billing --topic orders --to orders-backlog --queues 64
      ternmq backlog move billing --topic orders --to orders-backlog --queues 64 --include-in-flight --yes
    """
    if topic == target:
        raise WrongUsage("--topic and --to are the same topic")
    from ternmq_command.backlog.move import BacklogMover, plan_move
    from ternmq_command.calls.admin import AdminClient
    from ternmq_command.calls.messaging import MessagingClient

    with AdminClient(endpoint) as admin, MessagingClient(endpoint) as messaging:
        plan = plan_move(admin, messaging, group=group, topic=topic)
        if not include_in_flight:
            plan.check_idle()
        if plan.total:
            confirm_action(
                f"Move {format_count(plan.total, 'message')} of {topic} to {target} for group {group}?", yes=yes
            )
            mover = BacklogMover(admin, messaging, plan, target=target)
            queues = mover.prepare_target(queues)
            _carry_out(plan, mover.move_all(batch_max))
    _print_report(plan, target, queues, as_json=as_json)


def _carry_out(plan: "MovePlan", progress: "Iterator[int]") -> None:
    """Move all messages; after a failure or Ctrl-C, print how to continue."""
    line = MoveProgressLine(plan.total)
    try:
        for count in progress:
            line.add_messages(count)
    except (CommandFailure, KeyboardInterrupt):
        line.end_line()
        echo(_stop_message(plan), err=True)
        raise
    line.end_line()


def _stop_message(plan: "MovePlan") -> str:
    moved = format_count(sum(share.moved for share in plan.shares), "message")
    return f"stopped with {moved} moved; the same command continues there, and at most one batch is delivered twice"


def _print_report(plan: "MovePlan", target: str, queues: int, *, as_json: bool) -> None:
    group, topic, moved = plan.group.name, plan.topic.name, sum(share.moved for share in plan.shares)
    if as_json:
        shares = [
            {
                "broker": share.queue.broker.name,
                "queue": share.queue.id,
                "from": share.start,
                "to": share.end,
                "moved": share.moved,
            }
            for share in plan.shares
        ]
        print_json({"group": group, "topic": topic, "to": target, "moved": moved, "queues": shares})
    elif not plan.total:
        echo(f"group {group} has no backlog in {topic}", err=True)
    else:
        echo(f"moved {format_count(moved, 'message')} of {topic} to {target} ({queues} queues) for group {group}")
        echo(f"let consumers of {group} subscribe to {target}; messages sent to {topic} stay there", err=True)


class MoveProgressLine:
    """A line such as `moved 1200 of 5000`, overwritten on a terminal; nothing is written elsewhere."""

    def __init__(self, total: int) -> None:
        self._moved, self._total = 0, total
        self._is_shown = sys.stderr.isatty()

    def add_messages(self, count: int) -> None:
        self._moved += count
        if self._is_shown:
            overwrite_line(f"moved {self._moved} of {self._total}")

    def end_line(self) -> None:
        if self._is_shown and self._moved:
            echo(err=True)
