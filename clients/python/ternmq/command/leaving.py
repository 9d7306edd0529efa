"""How a command ends: with an exit code, and with a word on what went wrong.

A failure is one line on standard error; the exit codes are those of `main`.
"""

import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import click

from ternmq.command.failures import CommandFailure
from ternmq.command.printing import echo, escape_warnings

INTERRUPTED = 130


class OutputFailed(CommandFailure):
    """What the command printed can't be written, as on a full disk."""


def leave(run: Callable[[], object]) -> NoReturn:
    """Leave the process as `run`, a click command without its standalone mode, says by its result or failure."""
    escape_warnings()
    try:
        code = run()
    except click.Abort:
        sys.exit(INTERRUPTED)
    except click.ClickException as failure:
        _say(failure)
        sys.exit(failure.exit_code)
    except BrokenPipeError:
        # The reader of our output (`head`, say) has what it wanted; Python would complain once more at exit.
        sys.stdout = None
        sys.exit(0)
    except OSError as error:
        if not _is_of_output(error):
            raise
        sys.stdout = None
        lost = OutputFailed(f"can't write to standard output: {error.strerror}")
        _say(lost)
        sys.exit(lost.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _is_of_output(error: OSError) -> bool:
    """Whether it comes of printing: help and all that commands print goes by click's `echo`."""
    return any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _say(failure: click.ClickException) -> None:
    """Where standard error can't be written to either, the exit code says it alone."""
    try:
        _write(failure)
    except OSError:
        sys.stderr = None


def _write(failure: click.ClickException) -> None:
    if type(failure).__name__ == "NoArgsIsHelpError":  # a group without a subcommand answers with its whole help
        failure.show()
        return
    if not isinstance(failure, click.UsageError):
        echo(f"ternmq: {' '.join(failure.format_message().split())}", err=True)
        return
    path = failure.ctx.command_path if failure.ctx else "ternmq"
    echo(f"{path}: {' '.join(failure.format_message().split())} (see `{path} --help`)", err=True)
