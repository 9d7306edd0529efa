"""Options and parameter types that several subcommands share."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ternmq_command.terminal.time_parsing import parse_consume_from, parse_exact_time, parse_time
from ternmq_common.addresses import DEFAULT_GRPC, DEFAULT_HTTP, DEFAULT_REMOTING, parse_address
from ternmq_common.units import parse_duration

F = TypeVar("F", bound=Callable[..., Any])

CONTEXT_KEY = "ternmq.context"
"""Where click keeps, for all commands of a call, the name that `ternmq --context` or its variable gave."""
TYPED_CONTEXT_KEY = "ternmq.context.typed"
"""Whether the command line has the context: then no variable takes precedence over it."""
ACCESS_KEY = "ternmq.access"
"""Where click keeps the options of TLS and keys, in two dictionaries: those of the command line, and of variables."""
CONTEXT_ACCESS_KEY = "ternmq.context.access"
"""Where click keeps those options of the context whose endpoint is used."""
DURATION_MAX = timedelta(days=36_500)

if TYPE_CHECKING:
    TextType = click.ParamType[str]
    DurationType = click.ParamType[timedelta]
    PairType = click.ParamType[tuple[str, str]]
    MomentType = click.ParamType[datetime]
else:  # older releases of click can't be subscripted
    TextType = DurationType = PairType = MomentType = click.ParamType


class EndpointParam(TextType):
    """HOST:PORT of a broker or proxy."""

    name = "HOST:PORT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parse_address(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        return value.strip()


class EndpointOption(click.Option):
    """`--endpoint`, whose default is that of the context in use.

    A context on the command line takes precedence over the variable, so that a call does not reach another server than
    the one named.
    """

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return None if ctx.meta.get(TYPED_CONTEXT_KEY) else super().resolve_envvar_value(ctx)

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:  # noqa: ANN401
        if call and not ctx.resilient_parsing:
            from ternmq_command.terminal.contexts import server_in_use

            if (server := server_in_use(ctx.meta.get(CONTEXT_KEY))) is not None:
                ctx.meta[CONTEXT_ACCESS_KEY] = server.access
                return server.endpoint
        return super().get_default(ctx, call)


def http_option(function: F) -> F:
    """Add `--http`, for commands that use a server's HTTP port too; `http_address` returns its address."""
    text = f"The server's HTTP address; by default port {parse_address(DEFAULT_HTTP)[1]} at the endpoint's host."
    return click.option("--http", metavar="HOST:PORT", help=text)(function)


def http_address(endpoint: str, http: str | None) -> str:
    """Return the given HTTP address, or the default port at the host of the endpoint."""
    return http or f"{endpoint.rpartition(':')[0]}:{parse_address(DEFAULT_HTTP)[1]}"


def remoting_option(function: F) -> F:
    """Add `--remoting`, for commands that use a server's remoting port too; `remoting_address` returns its address."""
    text = (
        "The address for clients of RocketMQ 4; by default "
        f"port {parse_address(DEFAULT_REMOTING)[1]} at the endpoint's host, if it is served there."
    )
    return click.option("--remoting", metavar="HOST:PORT", help=text)(function)


def remoting_address(endpoint: str, remoting: str | None) -> str:
    """Return the given remoting address, or the default port at the host of the endpoint."""
    return remoting or f"{endpoint.rpartition(':')[0]}:{parse_address(DEFAULT_REMOTING)[1]}"


class DurationParam(DurationType):
    """A duration such as `500ms`, `10s`, `1h30m`; a plain number is in seconds.

    At most 100 years, so that adding it to a date does not overflow.
    """

    name = "DURATION"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            seconds = float(parse_duration(value, unit="s"))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        if seconds > DURATION_MAX.total_seconds():
            self.fail(f"{value!r}: at most {DURATION_MAX.days}d is allowed", param, ctx)
        return timedelta(seconds=seconds)


class TimeParam(MomentType):
    """A time such as `2026-08-01T12:00`, with or without a zone, or how long ago: `2h`."""

    name = "TIME"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return parse_time(value, now=datetime.now(UTC))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


class ExactTimeParam(MomentType):
    """An absolute time such as `2026-08-01T12:00`, with or without a zone."""

    name = "TIME"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return parse_exact_time(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


class ConsumeFromParam(TextType):
    """The start of a group in the form of the wire: a word, or milliseconds since the epoch."""

    name = "auto|earliest|latest|TIME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return parse_consume_from(value, now=datetime.now(UTC))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


class PairParam(PairType):
    """A pair `name=value`."""

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
    """Add `--endpoint`, and the options of TLS and keys for calls there, which `calls.access` reads."""
    endpoint = click.option(
        "--endpoint",
        cls=EndpointOption,
        type=EndpointParam(),
        envvar="TERNMQ_ENDPOINT",
        default=DEFAULT_GRPC,
        show_default=f"that of the context in use, else {DEFAULT_GRPC}",
        show_envvar=True,
        help="Where the broker's gRPC port is.",
    )
    return endpoint(access_options(command))


def access_options(command: F) -> F:
    """Add the options of TLS and keys; click keeps their values, and does not pass them to the command."""
    for name, metavar, text in reversed(ACCESS_OPTIONS):
        command = click.option(
            f"--{name}",
            is_flag=metavar is None,
            metavar=metavar,
            envvar=f"TERNMQ_{name.upper().replace('-', '_')}",
            default=None,
            expose_value=False,
            callback=_keep_access_option,
            help=text,
        )(command)
    return command


ACCESS_OPTIONS = (
    ("tls", None, "Connect by TLS; implied by the next four."),
    ("ca", "FILE", "Authorities to trust instead of the system's, PEM."),
    ("client-cert", "FILE", "The client's own certificate, PEM."),
    ("client-key", "FILE", "Its key."),
    ("server-name", "NAME", "The name in the server's certificate, if not that of the endpoint."),
    ("access-key", "KEY", "The user's access key; the secret is in $TERNMQ_SECRET_KEY or the next option's file."),
    ("credentials-file", "FILE", "TOML with access_key and secret_key, which only you can read."),
)


def _keep_access_option(context: click.Context, option: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - a flag or a text
    if value:
        typed, variables = context.meta.setdefault(ACCESS_KEY, ({}, {}))
        is_typed = context.get_parameter_source(str(option.name)) is click.core.ParameterSource.COMMANDLINE
        (typed if is_typed else variables)[str(option.name)] = value
    return value


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


def raw_option(command: F) -> F:
    return click.option(
        "--raw", is_flag=True, help="Print bodies and names as they are: control characters in them act on a terminal."
    )(command)


def json_lines_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")(command)
