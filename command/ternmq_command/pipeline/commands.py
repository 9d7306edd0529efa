"""`ternmq pipeline`: Spark jobs that read and write topics; their subcommands are imported when they are needed."""

import importlib

import click

from ternmq_command.terminal.nearest_group import NearestGroup

# In the order of `--help`. A pipeline is a module of this package whose click command is called `command`.
PIPELINES = ("lake", "compact", "stats", "replay", "dlq", "backlog")


class PipelineGroup(NearestGroup):
    """Imports a pipeline's module when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(PIPELINES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in PIPELINES:
            return None
        command = importlib.import_module(f"ternmq_command.pipeline.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=PipelineGroup)
def command() -> None:
    """Move topics into files and back with Spark (the extra `spark`, Java 17).

    A pipeline that was stopped or killed continues from its checkpoint folder when the same command is repeated.

    \b
    Examples:
      ternmq pipeline lake --topics orders,payments --out /data/lake
      ternmq pipeline compact --out /data/lake
    """
