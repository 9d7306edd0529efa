"""Exit codes of commands, and the lines that say what went wrong.

A failure is one line on standard error; the exit codes are those of `main`. Where `--json` was given, the last line
there is one JSON object:

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
    """What the command printed can't be written, as on a full disk."""

    word = "OUTPUT"


class _Told(NamedTuple):
    """A failure, each part on one line; `prefix` says for a person who complains, `text` all of it."""

    prefix: str
    text: str
    code: str
    message: str
    hint: str | None


def leave(run: Callable[[], object], *, as_json: bool = False, arguments: Sequence[str] = ()) -> NoReturn:
    """Leave the process as `run`, a click command without its standalone mode, says by its result or failure;
    `arguments` are what was typed."""
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
        # The reader of our output (`head`, say) has what it wanted; Python would complain once more at exit.
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
    """Ignore that nobody takes the last lines of the log, as after a terminal was closed; Python would end with 120."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        sys.stderr = None


def _not_utf8(error: UnicodeEncodeError, arguments: Sequence[str]) -> CommandFailure | None:
    """What is wrong if it comes of what was typed; Python keeps bytes that are no UTF-8 as lone surrogates."""
    broken = error.object[error.start : error.end]
    argument = next((each for each in arguments if broken in each), None)
    return None if argument is None else WrongUsage(f"the argument '{printable(argument)}' is not UTF-8")


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` is given, also among options that can't be understood."""
    return "--json" in itertools.takewhile(lambda argument: argument != "--", arguments)


def _is_of_output(error: OSError) -> bool:
    """Whether it comes of printing: help and all that commands print goes by click's `echo`."""
    import traceback  # not for calls that succeed

    return any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _say(failure: click.ClickException, *, as_json: bool) -> None:
    """Where standard error can't be written to either, the exit code says it alone."""
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
