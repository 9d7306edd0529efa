"""`ternmq config`: prints the settings in force, and where each comes from."""

import dataclasses
from pathlib import Path

import click

from ternmq_command.server.server_options import PROCESSES, config_option, load_process_settings, server_options
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import json_option
from ternmq_command.terminal.output import format_table, print_json
from ternmq_command.terminal.printing import echo_lines
from ternmq_common.settings import render_value, variable_name


@click.command()
@click.option(
    "--of", "process", type=click.Choice(list(PROCESSES)), default="up", show_default=True, help="Of which process."
)
@config_option
@server_options(*PROCESSES.values())
@json_option
def command(process: str, config: Path | None, as_json: bool, **flags: object) -> None:
    """Print the settings in force and their origins.

    They are those of `ternmq up`, or with --of of `ternmq broker` or `ternmq proxy`, if started here. Later sources
    win:
    defaults, the file, variables, options.

    \b
    Examples:
      ternmq config
      ternmq config --config ternmq.toml --json
      ternmq config --of broker --data-dir /var/lib/ternmq
      TERNMQ_FLUSH=async ternmq config
    """
    loaded = load_process_settings(PROCESSES[process], config, _process_flags(process, flags))
    values = {field.name: getattr(loaded.settings, field.name) for field in dataclasses.fields(loaded.settings)}
    if as_json:
        print_json(
            {name: {"value": _json_value(name, value), "from": loaded.origins[name]} for name, value in values.items()}
        )
        return
    echo_lines(
        format_table(
            [
                {
                    "setting": name,
                    "value": render_value(name, value),
                    "from": loaded.origins[name],
                    "variable": variable_name(name),
                }
                for name, value in values.items()
            ]
        )
    )


def _process_flags(process: str, flags: dict[str, object]) -> dict[str, object]:
    """Return the flags of the process's own settings; raises WrongUsage if others are given."""
    known = {field.name for field in dataclasses.fields(PROCESSES[process])}
    for parameter in click.get_current_context().command.params:
        if parameter.name in flags.keys() - known and flags[parameter.name] is not None:
            raise WrongUsage(f"`ternmq {process}` has no option {parameter.opts[0]}")
    return {name: value for name, value in flags.items() if name in known}


def _json_value(name: str, value: object) -> object:
    """Return a setting as JSON prints it; a URL without its password."""
    if isinstance(value, Path):
        return str(value)
    return render_value(name, value) if isinstance(value, str) else value
