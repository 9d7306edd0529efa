"""`ternmq config`: settings in force, and where each came from."""

import dataclasses
from pathlib import Path

import click

from ternmq.command.options import json_option
from ternmq.command.output import print_json, table
from ternmq.command.server_options import loaded_settings, server_options
from ternmq_common.settings import rendered, variable_name


@click.command()
@server_options
@json_option
def command(config: Path | None, as_json: bool, **flags: object) -> None:
    """Print the settings in force and their origins.

    They are what `ternmq up` would run with here. Later sources win: defaults, the file, variables, options.

    \b
    Examples:
      ternmq config
      ternmq config --config ternmq.toml --json
      TERNMQ_FLUSH=async ternmq config
    """
    loaded = loaded_settings(config, flags)
    values = {field.name: getattr(loaded.settings, field.name) for field in dataclasses.fields(loaded.settings)}
    if as_json:
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
        print_json({name: {"value": value, "from": loaded.origins[name]} for name, value in plain.items()})
        return
    click.echo(
        table(
            [
                {
                    "setting": name,
                    "value": rendered(name, value),
                    "from": loaded.origins[name],
                    "variable": variable_name(name),
                }
                for name, value in values.items()
            ]
        )
    )
