"""Asking before something that can't be taken back."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_common.printable import printable_lines

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    return click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")(command)


def confirm(question: str | Callable[[], str], *, yes: bool) -> None:
    """Ask unless `--yes` answered; No ends the command as Ctrl-C does. WrongUsage where nobody can be asked: a script
    that forgot `--yes` must not delete what a person would have kept.

    A function is called only when the question is asked, and says what it is.
    """
    if yes:
        return
    if not at_terminal():
        raise WrongUsage("this can't be taken back, and there is no terminal to ask at: give --yes to have it done")
    text = question if isinstance(question, str) else question()
    click.confirm(printable_lines(text), abort=True, err=True)


def at_terminal() -> bool:
    """Standard input may be closed too (`<&-`)."""
    return sys.stdin is not None and sys.stdin.isatty()
