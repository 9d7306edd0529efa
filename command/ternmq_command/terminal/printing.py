"""Writes to the terminal for all commands, and escapes what others may have put into the text.

The escaping is that of `ternmq_common.printable`. A line stays one line. A text of several lines, which the command
composed, keeps its line ends: values in it went through `printable` before, so that none can begin a line of its own.
Only the output of `--raw` is not escaped.
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
    """Write one line in bold yellow, as a warning."""
    click.secho(f"WARNING: {printable(text)}", fg="yellow", bold=True)


def echo_over(text: str) -> None:
    """Overwrite the current, unfinished line of standard error with `text`."""
    click.echo(f"\r{printable(text)}", nl=False, err=True)


def printable_line(text: str) -> str:
    """Return the text escaped as one line, to be combined with the command's own control characters."""
    return printable(text)


def control(text: str) -> None:
    """Write the command's own control characters; all other parts of the text went through `printable_line`."""
    click.echo(text, nl=False)


def echo_raw(text: str) -> None:
    """Write text that others sent without escaping it, as `--raw` requests."""
    click.echo(text.encode(errors="surrogateescape"))


def escape_warnings() -> None:
    """Escape the warnings of libraries too, which Python prints where logging is not configured."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_OneLine())


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(record.getMessage())
