"""The entry of the command: names of the subcommands, loaded when they are needed, and the exit codes.

0 done · 1 the server refused · 2 wrong usage or settings · 3 nothing answers at the endpoint · 130 Ctrl-C
"""

import functools
import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from ternmq.command.leaving import leave, wants_json
from ternmq.command.nearest_group import NearestGroup
from ternmq.command.printing import echo

# Name of the subcommand and its module, in the order of `--help`.
COMMANDS = {
    "up": "up",
    "broker": "broker",
    "proxy": "proxy",
    "topic": "topic",
    "group": "group",
    "send": "send",
    "recall": "recall",
    "receive": "receive",
    "tail": "tail",
    "dlq": "dlq",
    "transaction": "transaction",
    "backlog": "backlog",
    "pipeline": "pipeline",
    "apply": "apply",
    "export": "export",
    "registry": "registry",
    "store": "store",
    "backup": "backup",
    "restore": "restore",
    "clock": "clock",
    "config": "config",
    "version": "version",
    "completion": "completion",
}


class RootGroup(NearestGroup):
    """Imports a subcommand's module when it is asked for, and ends on Ctrl-C as shells expect it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"ternmq.command.{COMMANDS[cmd_name]}").command
        assert isinstance(command, click.Command)
        return command

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:  # noqa: ANN401
        """Run, and leave the process with one of the codes of this module's docstring."""
        extra.pop("standalone_mode", None)
        as_json = wants_json(sys.argv[1:] if args is None else args)
        leave(functools.partial(super().main, args, prog_name="ternmq", standalone_mode=False), as_json=as_json)


def _print_version(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    del option
    if is_given and not context.resilient_parsing:
        from importlib import metadata

        echo(f"ternmq {metadata.version('ternmq')}")
        context.exit()


@click.group(cls=RootGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit; `ternmq version` tells more.",
)
def cli() -> None:
    """A message broker that speaks the RocketMQ 5 protocol, and the tools to work with one.

    \b
    Examples:
      ternmq up                                        start a broker here, on 127.0.0.1:8081
      ternmq topic create orders --queues 16           make a topic
      ternmq send orders 'hello' --tag paid            send a message
      ternmq receive orders --group billing            take and acknowledge messages
      ternmq tail orders                               watch a topic
      ternmq topic create reminders --type delay       make a topic for messages that are for later
      ternmq send reminders 'call back' --delay 2h     send one
      ternmq dlq list billing                          see what a group gave up
      ternmq transaction list                          see what waits for its producer's word
      ternmq pipeline lake --topics orders --out out   write a topic to Parquet files, with Spark
      ternmq backup monday                             back up a broker that runs here, into a folder
      ternmq store verify                              check all files of a broker
      ternmq broker --data-dir /var/lib/ternmq         run a storage broker of a cluster
      ternmq proxy --grpc 0.0.0.0:8081                 run a proxy of a cluster

    Commands that talk to a broker take --endpoint HOST:PORT (or $TERNMQ_ENDPOINT). Exit codes: 0 done, 1 refused by
    the server, 2 wrong usage or settings, 3 nothing answers at the endpoint, 130 interrupted. With --json a failure is
    JSON too, in the last line of standard error: {"error": {"code": ..., "message": ..., "hint": ...}}.
    """


def main() -> NoReturn:
    """Entry point of the `ternmq` script."""
    cli.main()


if __name__ == "__main__":
    main()
