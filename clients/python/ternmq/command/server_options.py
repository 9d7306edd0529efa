"""The options of `ternmq up` and `ternmq config`, and the settings that result."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ternmq.command.failures import WrongUsage
from ternmq_common.server_settings import FlushMode, LogFormat, LogLevel, ServerSettings
from ternmq_common.settings import Loaded, SettingsError, load

F = TypeVar("F", bound=Callable[..., Any])

# Without defaults of their own: what is not given here is left to variables, file and settings class.
OPTIONS = (
    click.option("--config", type=click.Path(path_type=Path), envvar="TERNMQ_CONFIG", show_envvar=True, metavar="FILE",
                 help="Settings in a TOML file."),
    click.option("--data-dir", type=click.Path(path_type=Path), metavar="DIR",
                 help="Where everything is kept.  [default: ternmq-data]"),
    click.option("--grpc", metavar="HOST:PORT", help="gRPC address; port 0 picks one.  [default: 127.0.0.1:8081]"),
    click.option("--http", metavar="HOST:PORT", help="HTTP address; port 0 picks one.  [default: 127.0.0.1:8082]"),
    click.option("--auto-create/--no-auto-create", default=None,
                 help="Create NORMAL topics and groups on first use.  [default: on]"),
    click.option("--flush", type=click.Choice([each.value for each in FlushMode]),
                 help="Acknowledge a message when it is on disk, or written.  [default: sync]"),
    click.option("--broker-name", metavar="NAME", help="The broker's name in routes.  [default: broker-0]"),
    click.option("--retention", "retention_ms", metavar="DURATION", help="Keep messages this long.  [default: 72h]"),
    click.option("--segment-size", "segment_bytes", metavar="SIZE", help="Size of a log file.  [default: 1GiB]"),
    click.option("--accept-corruption", is_flag=True, default=None,
                 help="Start although stored messages are damaged; those are lost, no others."),
    click.option("--test-clock", is_flag=True, default=None,
                 help="Let anybody who can reach the port move time (`ternmq clock advance`); for tests only."),
    click.option("--log-level", type=click.Choice([each.value for each in LogLevel]), help="[default: info]"),
    click.option("--log-format", type=click.Choice([each.value for each in LogFormat]), help="[default: text]"),
)  # fmt: skip


def server_options(command: F) -> F:
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def loaded_settings(config: Path | None, flags: dict[str, object]) -> Loaded[ServerSettings]:
    """Settings in force, given the options; what is wrong with them ends the command with exit code 2."""
    try:
        return load(ServerSettings, file=config, environ=os.environ, flags=flags)
    except SettingsError as error:
        raise WrongUsage(str(error)) from None
