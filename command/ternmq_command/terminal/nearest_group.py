"""Groups of subcommands that name the nearest one when they don't have what they are asked for."""

import click

from ternmq_command.terminal.near import did_you_mean


class NearestGroup(click.Group):
    """click suggests too from 8.4 on, but no commands that are imported when they are asked for."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        is_option = name.startswith("-")  # of which click says more
        if not ctx.resilient_parsing and not is_option and self.get_command(ctx, name) is None:
            meant = did_you_mean(name, self.list_commands(ctx))
            raise click.UsageError(f"No such command {name!r}{f'; {meant}' if meant else '.'}", ctx)
        return super().resolve_command(ctx, args)
