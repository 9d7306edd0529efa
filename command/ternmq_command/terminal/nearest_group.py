"""Groups of subcommands that suggest similar ones for an unknown subcommand."""

import click

from ternmq_command.terminal.name_suggestions import suggest_names


class NearestGroup(click.Group):
    """A group that suggests subcommands; click does so from 8.4 on, but not for commands that are imported lazily."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        is_option = name.startswith("-")  # click's own error says more
        if not ctx.resilient_parsing and not is_option and self.get_command(ctx, name) is None:
            meant = suggest_names(name, self.list_commands(ctx))
            raise click.UsageError(f"No such command {name!r}{f'; {meant}' if meant else '.'}", ctx)
        return super().resolve_command(ctx, args)
