"""Asking before something that can't be taken back."""

import sys
from collections.abc import Callable

import click

from ternmq_common.printable import printable_lines


def confirm(question: str | Callable[[], str], *, yes: bool) -> None:
    """Ask if a person is there and `--yes` did not answer; No ends the command as Ctrl-C does.

    A function is called only when the question is asked, and says what it is.
    """
    if not yes and at_terminal():
        text = question if isinstance(question, str) else question()
        click.confirm(printable_lines(text), abort=True, err=True)


def at_terminal() -> bool:
    return sys.stdin.isatty()
