"""Code shared by commands that read a store's files: the folder, a progress bar, and failures as one line."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from ternmq_command.server.server_process import server_failures
from ternmq_command.terminal.failures import CommandFailure

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_DIR = Path("ternmq-data")
UNITS = ("B", "KiB", "MiB", "GiB")
UNIT = 1024


def directory_argument(command: F) -> F:
    """Add the argument DIR: the data directory of a broker, or the store in it."""
    return click.argument(
        "directory", metavar="[DIR]", type=click.Path(path_type=Path), default=DEFAULT_DIR, required=False
    )(command)


@contextmanager
def store_failures() -> Iterator[None]:
    """Convert the errors of reading a store to failures of one line."""
    with _ignoring_log("ternmq_broker"), server_failures():
        from ternmq_broker.store.disk.checked_file import NewerFormat

        try:
            yield
        except NewerFormat as error:
            raise CommandFailure(f"the store was written by a newer version of TernMQ: {error}") from None
        except BrokenPipeError:
            raise
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise CommandFailure(f"{where}{error.strerror or error}") from None


@contextmanager
def _ignoring_log(name: str) -> Iterator[None]:
    """Drop the log lines of a package in the block: the command itself reports what a recovery finds."""
    log, handler = logging.getLogger(name), logging.NullHandler()
    was_propagated, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = was_propagated


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error if that is a terminal; yields a function of the bytes done and the total bytes."""
    if not sys.stderr.isatty():
        yield lambda _done, _in_all: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr, width=30) as bar:

        def update_bar(done: int, in_all: int) -> None:
            bar.length = max(1, in_all)
            bar.update(done - bar.pos)

        yield update_bar


def format_size(size_bytes: int) -> str:
    """Format a size: `512 B`, `3.2 GiB`."""
    size, unit = float(size_bytes), UNITS[0]
    for unit in UNITS:
        if size < UNIT or unit == UNITS[-1]:
            break
        size /= UNIT
    return f"{size_bytes} B" if unit == UNITS[0] else f"{size:.1f} {unit}"
