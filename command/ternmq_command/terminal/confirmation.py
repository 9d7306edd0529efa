"""The confirmation that commands ask for before they do something irreversible."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_common.printable import escape_lines

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    return click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")(command)


def confirm_action(question: str | Callable[[], str], *, yes: bool) -> None:
    """Ask the question unless `--yes` was given; "no" ends the command as Ctrl-C does.

    Raises WrongUsage where there is no terminal to ask at: a script that forgot `--yes` must not delete what a person
    would have kept. If `question` is a function, it is called only when the question is printed.
    """
    if yes:
        return
    if not has_terminal():
        raise WrongUsage("this can't be undone, and there is no terminal to ask at: give --yes to do it")
    text = question if isinstance(question, str) else question()
    click.confirm(escape_lines(text), abort=True, err=True)


def has_terminal() -> bool:
    """Return whether standard input is a terminal; it may also be closed (`<&-`)."""
    return sys.stdin is not None and sys.stdin.isatty()
