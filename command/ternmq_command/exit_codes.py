"""Exit codes of commands, and the error line that a failed command prints.

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
from ternmq_common.printable import escape_line

INTERRUPTED = 130


class OutputFailed(CommandFailure):
    """The output of the command can't be written, for example because the disk is full."""

    word = "OUTPUT"


class _FailureReport(NamedTuple):
    """The parts of a failure's report, each on one line: `prefix` and `text` for people, the others for JSON."""

    prefix: str
    text: str
    code: str
    message: str
    hint: str | None


def exit_with_code(run: Callable[[], object], *, as_json: bool = False, arguments: Sequence[str] = ()) -> NoReturn:
    """Run `run`, a click command in non-standalone mode, and exit the process with the code of its result or failure.

    `arguments` are those of the command line.
    """
    escape_warnings()
    try:
        code = run()
    except click.Abort:
        sys.exit(INTERRUPTED)
    except click.ClickException as failure:
        _report_failure(failure, as_json=as_json)
        sys.exit(failure.exit_code)
    except UnicodeEncodeError as error:
        if (wrong := _find_invalid_argument(error, arguments)) is None:
            raise
        _report_failure(wrong, as_json=as_json)
        sys.exit(wrong.exit_code)
    except BrokenPipeError:
        # The reader of our output, such as `head`, has read enough; Python would report the error again at exit.
        sys.stdout = None
        sys.exit(0)
    except OSError as error:
        if not _is_output_error(error):
            raise
        sys.stdout = None
        lost = OutputFailed(f"can't write to standard output: {error.strerror}")
        _report_failure(lost, as_json=as_json)
        sys.exit(lost.exit_code)
    _ignore_closed_stderr()
    sys.exit(code if isinstance(code, int) else 0)


def _ignore_closed_stderr() -> None:
    """Ignore a closed standard error, for example of a closed terminal; Python would exit with 120."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        sys.stderr = None


def _find_invalid_argument(error: UnicodeEncodeError, arguments: Sequence[str]) -> CommandFailure | None:
    """Return the failure for an argument that is not UTF-8, None if no argument caused the error.

    Python keeps bytes that are not UTF-8 as lone surrogates.
    """
    broken = error.object[error.start : error.end]
    argument = next((each for each in arguments if broken in each), None)
    return None if argument is None else WrongUsage(f"the argument '{escape_line(argument)}' is not UTF-8")


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether `--json` is among the arguments, even if other options can't be parsed."""
    return "--json" in itertools.takewhile(lambda argument: argument != "--", arguments)


def _is_output_error(error: OSError) -> bool:
    """Return whether printing raised the error: help texts and all output go through click's `echo`."""
    import traceback  # not for calls that succeed

    return any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _report_failure(failure: click.ClickException, *, as_json: bool) -> None:
    """Print the failure; where standard error can't be written to, the exit code is the only report."""
    try:
        _print_failure(failure, as_json=as_json)
    except OSError:
        sys.stderr = None


def _print_failure(failure: click.ClickException, *, as_json: bool) -> None:
    if type(failure).__name__ == "NoArgsIsHelpError":  # a group without a subcommand answers with its whole help
        failure.show()
        return
    description = _describe_failure(failure)
    if as_json:
        from ternmq_command.terminal.output import format_json

        error = {"code": description.code, "message": description.message, "hint": description.hint}
        echo(format_json({"error": error}), err=True)
    else:
        echo(f"{description.prefix}: {description.text}", err=True)


def _describe_failure(failure: click.ClickException) -> _FailureReport:
    text = _join_lines(failure.format_message())
    if isinstance(failure, CommandFailure):
        hint = None if failure.hint is None else _join_lines(failure.hint)
        return _FailureReport("ternmq", text, failure.word, _join_lines(failure.what), hint)
    if isinstance(failure, click.UsageError):
        path = failure.ctx.command_path if failure.ctx else "ternmq"
        return _FailureReport(path, f"{text} (see `{path} --help`)", "USAGE", text, f"see `{path} --help`")
    return _FailureReport("ternmq", text, CommandFailure.word, text, None)


def _join_lines(text: str) -> str:
    return " ".join(text.split())
