"""Exit codes of commands, and the lines that say what went wrong.

A failure is one line on standard error; the exit codes are those of `main`. Where `--json` was given, the last line of
it is one JSON object:

    {"error": {"code": "TOPIC_NOT_FOUND", "message": "there is no topic 'ordrs'", "hint": "did you mean 'orders'?"}}

code        the name of the status code by which a server refused; else USAGE, UNREACHABLE (no server),
            REGISTRY_UNREACHABLE (no database), OUTPUT (what was printed can't be written) or FAILED
hint        what to do, null where nothing more is known than the message says
"""

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import click

from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.printing import echo, escape_warnings
from ternmq_common.printable import printable

INTERRUPTED = 130


class OutputFailed(CommandFailure):
    """The output of the command can't be written, for example because the disk is full."""

    word = "OUTPUT"


class _Told(NamedTuple):
    """The parts of a failure's report, each on one line: `prefix` and `text` for people, the others for JSON."""

    prefix: str
    text: str
    code: str
    message: str
    hint: str | None


def leave(run: Callable[[], object], *, as_json: bool = False, arguments: Sequence[str] = ()) -> NoReturn:
    """Run `run`, a click command in non-standalone mode, and exit the process with the code of its result or failure.

    `arguments` are those of the command line.
    """
    escape_warnings()
    try:
        code = run()
    except click.Abort:
        sys.exit(INTERRUPTED)
    except click.ClickException as failure:
        _say(failure, as_json=as_json)
        sys.exit(failure.exit_code)
    except UnicodeEncodeError as error:
        if (wrong := _not_utf8(error, arguments)) is None:
            raise
        _say(wrong, as_json=as_json)
        sys.exit(wrong.exit_code)
    except BrokenPipeError:
        # The reader of our output, such as `head`, has read enough; Python would report the error again at exit.
        sys.stdout = None
        sys.exit(0)
    except OSError as error:
        if not _is_of_output(error):
            raise
        sys.stdout = None
        lost = OutputFailed(f"can't write to standard output: {error.strerror}")
        _say(lost, as_json=as_json)
        sys.exit(lost.exit_code)
    _let_go_of_errors()
    sys.exit(code if isinstance(code, int) else 0)


def _let_go_of_errors() -> None:
    """Ignore a closed standard error, for example of a closed terminal; Python would exit with 120."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        sys.stderr = None


def _not_utf8(error: UnicodeEncodeError, arguments: Sequence[str]) -> CommandFailure | None:
    """Return the failure for an argument that is not UTF-8, None if no argument caused the error.

    Python keeps bytes that are not UTF-8 as lone surrogates.
    """
    broken = error.object[error.start : error.end]
    argument = next((each for each in arguments if broken in each), None)
    return None if argument is None else WrongUsage(f"the argument '{printable(argument)}' is not UTF-8")


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether `--json` is among the arguments, even if other options can't be parsed."""
    return "--json" in itertools.takewhile(lambda argument: argument != "--", arguments)


def _is_of_output(error: OSError) -> bool:
    """Return whether printing raised the error: help texts and all output go through click's `echo`."""
    import traceback  # not for calls that succeed

    return any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _say(failure: click.ClickException, *, as_json: bool) -> None:
    """Print the failure; where standard error can't be written to, the exit code is the only report."""
    try:
        _write(failure, as_json=as_json)
    except OSError:
        sys.stderr = None


def _write(failure: click.ClickException, *, as_json: bool) -> None:
    if type(failure).__name__ == "NoArgsIsHelpError":  # a group without a subcommand answers with its whole help
        failure.show()
        return
    told = _told(failure)
    if as_json:
        from ternmq_command.terminal.output import json_text

        error = {"code": told.code, "message": told.message, "hint": told.hint}
        echo(json_text({"error": error}), err=True)
    else:
        echo(f"{told.prefix}: {told.text}", err=True)


def _told(failure: click.ClickException) -> _Told:
    text = _one_line(failure.format_message())
    if isinstance(failure, CommandFailure):
        hint = None if failure.hint is None else _one_line(failure.hint)
        return _Told("ternmq", text, failure.word, _one_line(failure.what), hint)
    if isinstance(failure, click.UsageError):
        path = failure.ctx.command_path if failure.ctx else "ternmq"
        return _Told(path, f"{text} (see `{path} --help`)", "USAGE", text, f"see `{path} --help`")
    return _Told("ternmq", text, CommandFailure.word, text, None)


def _one_line(text: str) -> str:
    return " ".join(text.split())
