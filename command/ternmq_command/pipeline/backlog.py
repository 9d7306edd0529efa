"""`ternmq pipeline backlog`: moves a group's backlog to a topic with more queues, by Spark."""

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

import click

from ternmq_command.pipeline.options import SparkOptions, connection_options, spark_options
from ternmq_command.pipeline.session import check_options, pipeline_session
from ternmq_command.terminal.confirmation import confirm_action
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import json_option
from ternmq_command.terminal.output import format_count, print_json
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark_ternmq.pipelines.backlog import BacklogOptions
    from pyspark_ternmq.pipelines.connection import PipelineConnection


@click.command()
@click.option("--group", required=True, metavar="GROUP", help="Whose backlog moves.")
@click.option("--topic", required=True, metavar="TOPIC", help="The topic whose backlog moves.")
@click.option("--to", required=True, metavar="TOPIC", help="Where it moves; created if it does not exist.")
@click.option("--queues", type=click.IntRange(min=1), required=True, help="Message queues of a topic that is created.")
@click.option(
    "--checkpoint",
    required=True,
    metavar="FOLDER",
    help="Where the progress is kept: a local folder, or one as in s3a://bucket/folder; one folder for one move.",
)
@click.option(
    "--step",
    "step_rows",
    type=click.IntRange(min=1),
    default=50_000,
    show_default=True,
    help="Messages that are sent before the group's offset moves.",
)
@click.option("--include-in-flight", is_flag=True, help="Move although members of the group are consuming it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connection_options
@spark_options
@json_option
def command(
    group: str,
    topic: str,
    to: str,
    queues: int,
    checkpoint: str,
    step_rows: int,
    include_in_flight: bool,
    yes: bool,
    connection: "Callable[[], PipelineConnection]",
    spark_at: SparkOptions,
    as_json: bool,
) -> None:
    """Move the backlog of GROUP in a topic to a topic with more queues, so that more consumers can work on it.

    It does the same as `ternmq backlog move`, for backlogs for which that command is too slow. Stop the group's
    consumers of the topic first. Messages keep their ids, keys, tags, properties, bodies and message groups; they get
    new born timestamps. Messages that are sent to the old topic from now on stay there, as do those that wait for a
    retry.

    The move can be stopped or killed and repeated with the same command: it continues where it stopped, no message is
    lost, and at most one step is sent twice, with the same message ids.

    Asks first when standard input is a terminal.

    \b
    Examples:
      ternmq pipeline backlog --group billing --topic orders --to orders-wide --queues 64 --checkpoint /data/move
    """
    if topic == to:
        raise WrongUsage("--topic and --to are the same topic")

    def build_options() -> "BacklogOptions":
        from pyspark_ternmq.pipelines.backlog import BacklogOptions

        return BacklogOptions(
            connection=connection(),
            group=group,
            topic=topic,
            to=to,
            queues=queues,
            checkpoint=checkpoint,
            step_rows=step_rows,
            include_in_flight=include_in_flight,
        )

    is_confirmed = yes

    def ask_confirmation(left: int) -> None:
        nonlocal is_confirmed
        confirm_action(f"Move {format_count(left, 'message')} of {topic} to {to} for group {group}?", yes=is_confirmed)
        # A move that restarts by itself was confirmed before.
        is_confirmed = True

    wanted = check_options(build_options)
    with pipeline_session("backlog", spark_at) as (spark, line):
        from pyspark_ternmq.pipelines import backlog
        from pyspark_ternmq.pipelines.sessions.restarts import restarted

        report = restarted(partial(backlog.run, spark, wanted, line=line, confirm=ask_confirmation), line)
    if as_json:
        print_json(dataclasses.asdict(report))
    elif not report.moved:
        echo(f"group {group} has no backlog in {topic} to move", err=True)
    else:
        echo(f"moved {format_count(report.moved, 'message')} of {topic} to {to} for group {group}")
        echo(f"let consumers of {group} subscribe to {to}; messages sent to {topic} stay there", err=True)
