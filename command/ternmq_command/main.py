"""The entry point of the command: its subcommands, each imported when it is needed, and its exit codes.

0 done · 1 the server refused · 2 wrong usage or settings · 3 nothing answers at the endpoint · 130 Ctrl-C
"""

import ternmq_command.standard_streams

# isort: split

import ternmq_command.early_signals  # noqa: F401 - early, as a signal may come at any time

# isort: split

import functools
import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from ternmq_command.exit_codes import exit_with_code, wants_json
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Subcommand(NamedTuple):
    """The module in this package that has the subcommand's click command, and its line in `--help`."""

    module: str
    text: str


# In the order of `--help`, which need not import them all.
COMMANDS = {
    "up": Subcommand("server.up", "Start a broker here, in this process or in several."),
    "broker": Subcommand("server.broker", "Run a storage broker of a cluster, or administer brokers."),
    "proxy": Subcommand("server.proxy", "Run a proxy of a cluster, or list them."),
    "cluster": Subcommand("cluster.commands", "Spread topics over brokers, empty a broker."),
    "shard": Subcommand("shard.commands", "Show and change the replicas of brokers, and their leaders."),
    "topic": Subcommand("topic.commands", "Create, list, change, purge and delete topics."),
    "group": Subcommand("group.commands", "Create, list, describe, change and delete consumer groups."),
    "send": Subcommand("message.send", "Send messages to a topic."),
    "recall": Subcommand("message.recall", "Recall a timed message before it is delivered."),
    "receive": Subcommand("message.receive", "Receive messages of a topic as a consumer group."),
    "tail": Subcommand("message.tail", "Print the messages of a topic as they arrive."),
    "message": Subcommand("message.message", "Find stored messages, and show them."),
    "dlq": Subcommand("dlq.commands", "Look at dead letters, deliver them again, export them."),
    "timer": Subcommand("timer.commands", "Look at timed messages that wait."),
    "transaction": Subcommand("transaction.commands", "Look at open transactions, and end them."),
    "backlog": Subcommand("backlog.commands", "Move the backlog of a group to a topic with more queues."),
    "pipeline": Subcommand("pipeline.commands", "Move topics into files and back with Spark."),
    "user": Subcommand("user.commands", "Create, list, change and delete users, rotate their secrets."),
    "policy": Subcommand("policy.commands", "Set what users may do, and what they may not."),
    "quota": Subcommand("quota.commands", "Limit the traffic of users, topics, groups and clients."),
    "audit": Subcommand("audit.commands", "Show the audit log: calls that users made, and refusals."),
    "apply": Subcommand("apply.commands", "Create and change topics, groups and users as a file declares."),
    "export": Subcommand("apply.export", "Write topics, groups and users to a file that apply reads."),
    "import": Subcommand("migration.commands", "Create what an Apache RocketMQ cluster has."),
    "mirror": Subcommand("mirror.commands", "Copy messages of an Apache RocketMQ cluster while both run."),
    "registry": Subcommand("registry.commands", "Prepare the registry of a cluster, rebuild a lost one."),
    "tls": Subcommand("tls.commands", "Create certificates for development."),
    "store": Subcommand("store.commands", "Look at, check and repair the files of a broker."),
    "backup": Subcommand("store.backup", "Back up a broker into a folder."),
    "restore": Subcommand("store.restore", "Restore a broker from a backup."),
    "client": Subcommand("client.commands", "List the clients that are connected."),
    "status": Subcommand("server.diagnosis.status", "Show whether each component is well, one line each."),
    "top": Subcommand("server.diagnosis.top", "Watch rates of topics and lags of groups."),
    "history": Subcommand("server.diagnosis.history", "Print rates, lags and latencies of the last hours."),
    "log-level": Subcommand("server.log_level", "Show or change what a running server logs."),
    "diag": Subcommand("server.diagnosis.diag", "Write a bundle for diagnosing a fault, without secrets."),
    "clock": Subcommand("server.clock", "Show a server's clock, or move it ahead."),
    "bench": Subcommand("bench.commands", "Measure a server quickly, with a topic created for that."),
    "doctor": Subcommand("server.diagnosis.doctor", "Look for problems of a server, and say what to do."),
    "context": Subcommand("context.commands", "Name endpoints, and choose the one that commands use."),
    "config": Subcommand("server.config", "Print the settings in force, and where each comes from."),
    "version": Subcommand("server.diagnosis.version", "Print the version, also that of a server."),
    "completion": Subcommand("completion.completion", "Print the completion script of a shell."),
}


class RootGroup(NearestGroup):
    """Imports a subcommand's module when it is called, and ends on Ctrl-C as shells expect."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"ternmq_command.{COMMANDS[cmd_name].module}").command
        assert isinstance(command, click.Command)
        if ctx.resilient_parsing:  # the call of a shell for completions
            from ternmq_command.completion.name_completion import complete_names

            complete_names(command, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, subcommand.text) for name, subcommand in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        if incomplete and not incomplete[0].isalnum():
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=subcommand.text)
            for name, subcommand in COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:  # noqa: ANN401
        """Run the command line, and exit the process with one of the codes of this module's docstring."""
        extra.pop("standalone_mode", None)
        typed = sys.argv[1:] if args is None else args
        run = functools.partial(super().main, args, prog_name="ternmq", standalone_mode=False)
        exit_with_code(run, as_json=wants_json(typed), arguments=typed)


def _print_version(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    del option
    if is_given and not context.resilient_parsing:
        from importlib import metadata

        echo(f"ternmq {metadata.version('ternmq')}")
        context.exit()


def _choose_context(context: click.Context, option: click.Parameter, name: str | None) -> None:
    if name is None:
        return
    context.meta["ternmq.context"] = name  # CONTEXT_KEY of `options`, which a call for help need not import
    is_typed = context.get_parameter_source(str(option.name)) is click.core.ParameterSource.COMMANDLINE
    context.meta["ternmq.context.typed"] = is_typed


@click.group(cls=RootGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit; `ternmq version` prints more.",
)
@click.option(
    "--context",
    metavar="NAME",
    envvar="TERNMQ_CONTEXT",
    show_envvar=True,
    expose_value=False,
    callback=_choose_context,
    help="The context to use in this call (`ternmq context`), where no endpoint is given.",
)
def cli() -> None:
    """A message broker that speaks the RocketMQ 5 protocol, and the tools to work with one.

    \b
    Examples:
      ternmq up                                        start a broker here, on 127.0.0.1:8081
      ternmq topic create orders --queues 16           create a topic
      ternmq send orders 'hello' --tag paid            send a message
      ternmq receive orders --group billing            receive and acknowledge messages
      ternmq tail orders                               watch a topic
      ternmq message find orders --key order-7         find a message that is stored
      ternmq topic create reminders --type delay       create a topic for timed messages
      ternmq send reminders 'call back' --delay 2h     send one
      ternmq dlq list billing                          list dead letters of a group
      ternmq transaction list                          list open transactions
      ternmq pipeline lake --topics orders --out out   write a topic to Parquet files, with Spark
      ternmq status                                    see whether all is well, for scripts too
      ternmq doctor                                    look for problems, and what to do about them
      ternmq backup monday                             back up a broker that runs here, into a folder
      ternmq store verify                              check all files of a broker
      ternmq broker --data-dir /var/lib/ternmq         run a storage broker of a cluster
      ternmq proxy --access-control                    run a proxy of a cluster

    Commands that talk to a broker take --endpoint HOST:PORT (or $TERNMQ_ENDPOINT, or the context in use). Exit codes:
    0 done, 1 refused by the server, 2 wrong usage or settings, 3 nothing answers at the endpoint, 130 interrupted. With
    --json a failure is JSON too, in the last line of standard error:
    {"error": {"code": ..., "message": ..., "hint": ...}}.
    """


def main() -> NoReturn:
    """Entry point of the `ternmq` script."""
    cli.main()


if __name__ == "__main__":
    main()
