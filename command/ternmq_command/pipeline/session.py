"""Runs the commands of pipelines: with a Spark session, a progress line, and errors converted to failures."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ternmq_command.pipeline.options import SparkOptions, check_spark, spark_session_for
from ternmq_command.terminal.failures import CommandFailure, ServerUnreachable, WrongUsage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_ternmq.pipelines.progress import ProgressLine

OptionsT = TypeVar("OptionsT")


def check_options(make: Callable[[], OptionsT]) -> OptionsT:
    """Return the options of a pipeline, checked before Java is started; their ValueError becomes WrongUsage."""
    check_spark()
    try:
        return make()
    except ValueError as error:
        raise WrongUsage(str(error)) from None


@contextmanager
def pipeline_session(name: str, spark_at: SparkOptions) -> "Iterator[tuple[SparkSession, ProgressLine]]":
    """Open a Spark session and a progress line for the block."""
    with spark_session_for(f"ternmq {name}", spark_at) as spark:
        from pyspark_ternmq.decoding.schema_registry.registry import RegistryFailed
        from pyspark_ternmq.pipelines.backlog_plan import BacklogRefused
        from pyspark_ternmq.pipelines.dead_letters.dlq_repair import WrongRepair
        from pyspark_ternmq.pipelines.journal import JournalError
        from pyspark_ternmq.pipelines.lake.commits import LakeBroken
        from pyspark_ternmq.pipelines.lake.job import TooManyMalformed
        from pyspark_ternmq.pipelines.lake.lock import Locked, LockLost
        from pyspark_ternmq.pipelines.progress import ProgressLine
        from pyspark_ternmq.pipelines.replaying.replay_source import WrongRows
        from pyspark_ternmq.pipelines.snapshots.finding import WrongSource
        from ternmq.errors import ClientError, TransportError

        try:
            with ProgressLine(name) as line:
                yield spark, line
        except TransportError as error:
            raise ServerUnreachable(error.endpoint, error.message.removeprefix(f"{error.endpoint}: ")) from None
        except (WrongRepair, WrongSource) as error:
            raise WrongUsage(str(error)) from None
        except BrokenPipeError:
            raise
        except (BacklogRefused, ClientError, JournalError, LakeBroken, Locked, LockLost, OSError, WrongRows) as error:
            raise CommandFailure(str(error)) from None
        except (RegistryFailed, TooManyMalformed) as error:
            raise CommandFailure(str(error)) from None
