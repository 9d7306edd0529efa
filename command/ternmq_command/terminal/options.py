"""Options and parameter types that several subcommands share."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ternmq_command.terminal.moments import consume_from_of, exact_moment_of, moment_of
from ternmq_common.addresses import DEFAULT_GRPC, parsed_address
from ternmq_common.errors import MessagingError
from ternmq_common.retry_backoff import parse_backoff
from ternmq_common.units import parsed_duration

F = TypeVar("F", bound=Callable[..., Any])

CONTEXT_KEY = "ternmq.context"
"""Where click keeps, for all commands of a call, the name that `ternmq --context` or its variable gave."""
TYPED_CONTEXT_KEY = "ternmq.context.typed"
"""Whether it was typed: then no variable goes before it."""
DURATION_MAX = timedelta(days=36_500)

if TYPE_CHECKING:
    TextType = click.ParamType[str]
    DurationType = click.ParamType[timedelta]
    PairType = click.ParamType[tuple[str, str]]
    MomentType = click.ParamType[datetime]
else:  # older releases of click can't be subscripted
    TextType = DurationType = PairType = MomentType = click.ParamType


class Endpoint(TextType):
    """HOST:PORT of a broker or proxy."""

    name = "HOST:PORT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parsed_address(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        return value.strip()


class EndpointOption(click.Option):
    """`--endpoint`, whose default is that of the context in use. A context that was typed goes before the variable:
    what is meant for one server must not be done to another."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return None if ctx.meta.get(TYPED_CONTEXT_KEY) else super().resolve_envvar_value(ctx)

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:  # noqa: ANN401
        if call and not ctx.resilient_parsing:
            from ternmq_command.context.contexts import endpoint_in_use

            if (endpoint := endpoint_in_use(ctx.meta.get(CONTEXT_KEY))) is not None:
                return endpoint
        return super().get_default(ctx, call)


class Duration(DurationType):
    """`500ms`, `10s`, `1h30m`; a plain number is in seconds. At most 100 years, which every calendar can add."""

    name = "DURATION"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            seconds = float(parsed_duration(value, unit="s"))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        if seconds > DURATION_MAX.total_seconds():
            self.fail(f"{value!r}: at most {DURATION_MAX.days}d is allowed", param, ctx)
        return timedelta(seconds=seconds)


class Moment(MomentType):
    """`2026-08-01T12:00`, with or without a zone, or how long ago: `2h`."""

    name = "TIME"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return moment_of(value, now=datetime.now(UTC))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


class ExactMoment(MomentType):
    """`2026-08-01T12:00`, with or without a zone."""

    name = "TIME"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return exact_moment_of(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


class ConsumeFrom(TextType):
    """Where a group begins, as the wire has it: a word, or milliseconds since the epoch."""

    name = "auto|earliest|latest|TIME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return consume_from_of(value, now=datetime.now(UTC))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


class Backoff(TextType):
    """A retry backoff that the server will understand, as it was typed."""

    name = "POLICY"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parse_backoff(value)
        except MessagingError as error:
            self.fail(error.message, param, ctx)
        return value.strip()


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
        cls=EndpointOption,
        type=Endpoint(),
        envvar="TERNMQ_ENDPOINT",
        default=DEFAULT_GRPC,
        show_default=f"that of the context in use, else {DEFAULT_GRPC}",
        show_envvar=True,
        help="Where the broker's gRPC port is.",
    )(command)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


def raw_option(command: F) -> F:
    return click.option(
        "--raw", is_flag=True, help="Print bodies and names as they are: control characters in them act on a terminal."
    )(command)


def json_lines_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")(command)
