"""The one way by which commands write to a terminal: what others had a part in is escaped (`ternmq_common.printable`).

A line stays one line. A text of several, which the command put together, keeps its line ends: values in it went through
`printable` before, so that none can begin a line of its own. Only what `--raw` asks for is written as it came.
"""

import logging
from typing import IO, Any

import click

from ternmq_common.printable import printable, printable_lines


def echo(text: str = "", *, err: bool = False, file: IO[Any] | None = None) -> None:
    """Write one line on standard output, on standard error with `err`, or to `file`."""
    click.echo(printable(text), file=file, err=err)


def echo_lines(text: str, *, err: bool = False) -> None:
    """Write a text of several lines on standard output, on standard error with `err`."""
    click.echo(printable_lines(text), err=err)


def echo_warning(text: str) -> None:
    """Write one line that is not to be missed."""
    click.secho(f"WARNING: {printable(text)}", fg="yellow", bold=True)


def echo_over(text: str) -> None:
    """Write `text` over the line on standard error, which has no end yet."""
    click.echo(f"\r{printable(text)}", nl=False, err=True)


def printable_line(text: str) -> str:
    """One line, for who puts it among control characters of the command's own."""
    return printable(text)


def control(text: str) -> None:
    """Write what acts on the terminal because the command wants that; all else in it went through `printable_line`."""
    click.echo(text, nl=False)


def echo_raw(text: str) -> None:
    """Write what somebody sent as it is, because who called the command asked for that."""
    click.echo(text.encode(errors="surrogateescape"))


def escape_warnings() -> None:
    """Let what libraries warn of, where nobody set up logging, go the same way."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_OneLine())


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(record.getMessage())
