"""Writes to the terminal for all commands, and escapes what others may have put into the text.

The escaping is that of `ternmq_common.escape_line`. A line stays one line. A text of several lines, which the command
composed, keeps its line ends: values in it went through `escape_line` before, so that none can begin a line of its own.
Only the output of `--raw` is not escaped.
"""

import logging
from typing import IO, Any

import click

from ternmq_common.printable import escape_line, escape_lines


def echo(text: str = "", *, err: bool = False, file: IO[Any] | None = None) -> None:
    """Write one line on standard output, on standard error with `err`, or to `file`."""
    click.echo(escape_line(text), file=file, err=err)


def echo_lines(text: str, *, err: bool = False) -> None:
    """Write a text of several lines on standard output, on standard error with `err`."""
    click.echo(escape_lines(text), err=err)


def echo_warning(text: str) -> None:
    """Write one line in bold yellow, as a warning."""
    click.secho(f"WARNING: {escape_line(text)}", fg="yellow", bold=True)


def overwrite_line(text: str) -> None:
    """Overwrite the current, unfinished line of standard error with `text`."""
    click.echo(f"\r{escape_line(text)}", nl=False, err=True)


def printable_line(text: str) -> str:
    """Return the text escaped as one line, to be combined with the command's own control characters."""
    return escape_line(text)


def echo_control(text: str) -> None:
    """Write the command's own control characters; all other parts of the text went through `printable_line`."""
    click.echo(text, nl=False)


def echo_raw(text: str) -> None:
    """Write text that others sent without escaping it, as `--raw` requests."""
    click.echo(text.encode(errors="surrogateescape"))


def escape_warnings() -> None:
    """Escape the warnings of libraries too, which Python prints where logging is not configured."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_OneLineFormatter())


class _OneLineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escape_line(record.getMessage())
