"""`ternmq pipeline`: Spark jobs around a broker; their subcommands are loaded when they are needed."""

import importlib

import click

from ternmq_command.terminal.nearest_group import NearestGroup

# In the order of `--help`. A new one is a module of this package whose click command is called `command`, named here.
PIPELINES = ("lake", "compact", "stats", "replay", "dlq", "backlog")


class PipelineGroup(NearestGroup):
    """Imports a pipeline's module when it is asked for."""

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

    A pipeline that was stopped or killed goes on from its checkpoint folder when it is started with the same words.

    \b
    Examples:
      ternmq pipeline lake --topics orders,payments --out /data/lake
      ternmq pipeline compact --out /data/lake
    """
