"""The options that all pipelines share: the connection and Spark's settings; errors are converted to failures.

Keys come from the environment or from a file, never from the command line, which every user of a machine can read.
"""

import functools
import importlib.util
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ternmq_command.calls.access import current_access
from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.options import DurationParam, PairParam, endpoint_option
from ternmq_command.terminal.printing import echo_lines
from ternmq_common.installing import install_hint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_ternmq.pipelines.connection import PipelineConnection

F = TypeVar("F", bound=Callable[..., Any])

source_options = click.option(
    "--source-option", "source", type=PairParam(), multiple=True, help="Another option of the source; repeatable."
)
"""Adds `--source-option`; the command gets `source`, pairs of a name and a value."""
DEFAULT_TRIGGER = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """The options of the Spark session; `is_verbose` shows whole traces of errors."""

    master: str | None
    config: Mapping[str, str]
    is_verbose: bool


def connection_options(command: F) -> F:
    """Add the options of the connection; the command gets `build_connection`, a function that returns it."""
    options = (
        endpoint_option,
        click.option("--request-timeout", type=DurationParam(), help="How long one request to the broker may take."),
    )

    @functools.wraps(command)
    def with_connection(
        *arguments: Any,  # noqa: ANN401
        endpoint: str,
        request_timeout: timedelta | None,
        **others: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        def build_connection() -> "PipelineConnection":
            """Return the connection; imports when the command runs, since `--help` needs no Spark."""
            check_spark()
            from pyspark_ternmq.pipelines.connection import PipelineConnection

            tls, keys = current_access().tls_options(), current_access().current_credentials()
            return PipelineConnection(
                endpoint=endpoint,
                tls=tls is not None,
                tls_ca_file=None if tls is None else _path_text(tls.ca),
                tls_certificate_file=None if tls is None else _path_text(tls.client_cert),
                tls_key_file=None if tls is None else _path_text(tls.client_key),
                tls_server_name=None if tls is None else tls.server_name,
                access_key=None if keys is None else keys.access_key,
                secret_key=None if keys is None else keys.secret_key,
                session_token=None if keys is None else keys.session_token,
                request_timeout_ms=None if request_timeout is None else round(request_timeout.total_seconds() * 1000),
            )

        return command(*arguments, connection=build_connection, **others)

    return _add_options(cast("F", with_connection), options)


def _path_text(pem: object) -> str | None:
    return None if pem is None else str(pem)


def spark_options(command: F) -> F:
    """Add the options of Spark; the command gets `spark_at`, a SparkOptions."""
    options = (
        click.option(
            "--master", metavar="URL", help="Where Spark runs, such as local[4] or spark://host:7077.  [default: here]"
        ),
        click.option("--conf", type=PairParam(), multiple=True, help="A setting of Spark; may be repeated."),
        click.option("--verbose", is_flag=True, help="Show whole traces of errors, and what Spark logs."),
    )

    @functools.wraps(command)
    def with_spark(
        *arguments: Any,  # noqa: ANN401
        master: str | None,
        conf: tuple[tuple[str, str], ...],
        verbose: bool,
        **others: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        config = {**({"spark.log.level": "WARN"} if verbose else {}), **dict(conf)}
        return command(*arguments, spark_at=SparkOptions(master=master, config=config, is_verbose=verbose), **others)

    return _add_options(cast("F", with_spark), options)


def stream_options(done: str) -> Callable[[F], F]:
    """Add the options of a stream; the command gets `trigger` and `starting`.

    `trigger` is the interval of its batches, None for a run that ends when all messages are `done`.
    """
    options = (
        click.option(
            "--continuous/--available-now",
            "is_continuous",
            default=False,
            help=f"Continue with new messages, or end when all present messages are {done}.  [default: available-now]",
        ),
        click.option(
            "--trigger", type=DurationParam(), help="With --continuous, how often to read new messages.  [default: 10s]"
        ),
        click.option(
            "--starting",
            default="earliest",
            show_default=True,
            metavar="earliest|latest|JSON",
            help="Where the first run begins; later ones continue from the checkpoint.",
        ),
    )

    def add_options(command: F) -> F:
        @functools.wraps(command)
        def with_trigger(
            *arguments: Any,  # noqa: ANN401
            is_continuous: bool,
            trigger: timedelta | None,
            **others: Any,  # noqa: ANN401
        ) -> Any:  # noqa: ANN401
            if trigger is not None and not is_continuous:
                raise WrongUsage("--trigger goes with --continuous")
            return command(*arguments, trigger=(trigger or DEFAULT_TRIGGER) if is_continuous else None, **others)

        return _add_options(cast("F", with_trigger), options)

    return add_options


def _add_options(command: F, options: Sequence[Callable[[F], F]]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def check_spark() -> None:
    """Raise WrongUsage if the packages of the extra `spark` are missing."""
    for package in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(package) is None:
            raise WrongUsage(f"{package} is not installed: {install_hint('spark')}")


@contextmanager
def spark_session_for(name: str, spark_at: SparkOptions) -> "Iterator[SparkSession]":
    """Open a Spark session for the block, and convert its errors to failures of one line."""
    check_spark()
    from pyspark_ternmq.pipelines.sessions.session import SparkMissing, error_line, spark_session

    try:
        session = spark_session(name, master=spark_at.master, config=spark_at.config, is_quiet=not spark_at.is_verbose)
    except SparkMissing as missing:
        raise WrongUsage(str(missing)) from None
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield session
    except (PySparkException, Py4JError) as error:
        if spark_at.is_verbose:
            echo_lines("".join(traceback.format_exception(error)), err=True)
        raise CommandFailure(error_line(error)) from None
    finally:
        session.stop()
