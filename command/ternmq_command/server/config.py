"""`ternmq config`: prints the settings in force, and the source of each."""

from pathlib import Path

import click

from ternmq_command.server.server_options import PROCESSES, config_option, load_process_settings, server_options
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import json_option
from ternmq_command.terminal.output import format_table, print_json
from ternmq_command.terminal.printing import echo_lines
from ternmq_common.resources.setting import Setting, settings_of


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
    settings = settings_of(PROCESSES[process])
    values = [(each, getattr(loaded.settings, each.name), loaded.origins[each.name]) for each in settings.values()]
    if as_json:
        print_json({each.key: {"value": _json_value(each, value), "from": origin} for each, value, origin in values})
        return
    rows = [
        {"setting": each.key, "value": each.render(value), "from": origin, "variable": each.variable}
        for each, value, origin in values
    ]
    echo_lines(format_table(rows))


def _process_flags(process: str, flags: dict[str, object]) -> dict[str, object]:
    """Return the flags of the process's own settings; raises WrongUsage if others are given."""
    known = settings_of(PROCESSES[process])
    for parameter in click.get_current_context().command.params:
        if parameter.name in flags.keys() - known.keys() and flags[parameter.name] is not None:
            raise WrongUsage(f"`ternmq {process}` has no option {parameter.opts[0]}")
    return {name: value for name, value in flags.items() if name in known}


def _json_value(setting: Setting, value: object) -> object:
    """Return a setting as JSON prints it; a URL without its password."""
    if isinstance(value, Path):
        return str(value)
    return setting.render(value) if isinstance(value, str) else value
