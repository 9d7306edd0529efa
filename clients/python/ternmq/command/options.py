"""Options and parameter types that several subcommands share."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ternmq_common.server_settings import DEFAULT_GRPC, parsed_address
from ternmq_common.settings import parsed_duration

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    TextType = click.ParamType[str]
    DurationType = click.ParamType[timedelta]
    PairType = click.ParamType[tuple[str, str]]
else:  # older releases of click can't be subscripted
    TextType = DurationType = PairType = click.ParamType


class Endpoint(TextType):
    """HOST:PORT of a broker or proxy."""

    name = "HOST:PORT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parsed_address(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        return value.strip()


class Duration(DurationType):
    """`500ms`, `10s`, `1h30m`; a plain number is in seconds."""

    name = "DURATION"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return timedelta(seconds=float(parsed_duration(value, unit="s")))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


class Pair(PairType):
    """`name=value`."""

    name = "NAME=VALUE"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not name or not equals:
            self.fail(f"{value!r}: NAME=VALUE is needed", param, ctx)
        return name, text


def endpoint_option(command: F) -> F:
    return click.option(
        "--endpoint",
        type=Endpoint(),
        envvar="TERNMQ_ENDPOINT",
        default=DEFAULT_GRPC,
        show_default=True,
        show_envvar=True,
        help="Where the broker's gRPC port is.",
    )(command)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


def json_lines_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")(command)
