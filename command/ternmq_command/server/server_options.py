"""The options of `ternmq up`, `ternmq broker`, `ternmq proxy` and `ternmq config`, and the settings that result."""

import enum
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.printing import echo
from ternmq_common.resources.setting import Setting, settings_of
from ternmq_common.server_settings import BrokerServerSettings, ProcessSettings, ProxySettings, ServerSettings
from ternmq_common.settings import LoadedSettings, SettingsError, load_settings

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=ProcessSettings)

PROCESSES: dict[str, type[ProcessSettings]] = {
    "up": ServerSettings,
    "broker": BrokerServerSettings,
    "proxy": ProxySettings,
}
_ALL = tuple({each.name: each for settings in PROCESSES.values() for each in settings_of(settings).values()}.values())


def config_option(command: F) -> F:
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="TERNMQ_CONFIG",
        show_envvar=True,
        metavar="FILE",
        help="Settings in a TOML file.",
    )(command)


def server_options(*settings: type[ProcessSettings]) -> Callable[[F], F]:
    """Add the option of each setting of these classes that has one."""
    named = {each.name: each for cls in settings for each in settings_of(cls).values() if each.flag}

    def add_options(command: F) -> F:
        for setting in reversed(named.values()):
            command = setting_option(setting)(command)
        return command

    return add_options


def setting_option(setting: Setting) -> Callable[[F], F]:
    """Return the option of a setting. It has no default of its own: a value that is not given comes from variables, the
    file or the settings class."""
    name, kind = setting.option, setting.kind
    how: dict[str, Any] = {"default": None, "help": setting.meaning + _default_note(setting)}
    if kind is bool:
        return click.option(
            f"{name}/{name.replace('--', '--no-', 1)}" if setting.default else name, is_flag=True, **how
        )
    if issubclass(kind, enum.Enum):
        how["type"] = click.Choice([str(each.value) for each in kind])
    else:
        how |= {"metavar": setting.value_form, "type": click.Path(path_type=Path) if kind is Path else str}
    if setting.words:
        how["shell_complete"] = lambda *_: list(setting.words)
    return click.option(name, setting.name, **how)


def _default_note(setting: Setting) -> str:
    """Return `  [default: ...]`, as click writes it; nothing where the meaning says what comes without a value."""
    if setting.default in (False, ""):
        return ""
    if setting.default is None:
        return "  [default: auto]" if setting.auto else ""
    return f"  [default: {'on' if setting.default is True else setting.render(setting.default)}]"


def load_process_settings(settings: type[S], config: Path | None, flags: dict[str, object]) -> LoadedSettings[S]:
    """Load the settings in force from options, variables and file; wrong ones end the command with exit code 2."""
    try:
        loaded = load_settings(settings, file=config, environ=os.environ, flags=flags, known_elsewhere=_ALL)
    except SettingsError as error:
        raise WrongUsage(str(error)) from None
    if loaded.ignored:
        echo(
            f"WARNING: ignored {', '.join(loaded.ignored)}: set by Kubernetes for a Service's name, no settings "
            "(enableServiceLinks: false leaves them out)",
            err=True,
        )
    if loaded.former:
        renamed = ", ".join(f"{former} is {current} now" for former, current in loaded.former)
        echo(f"WARNING: {renamed}: expert settings have names of their own; the former ones will go", err=True)
    if loaded.others:
        echo(_others_warning(loaded.others), err=True)
    return loaded


def _others_warning(variables: tuple[str, ...]) -> str:
    """Return the warning for variables of another kind of process.

    They may come from one list for all processes, or from mistaking one process for another.
    """
    text = f"WARNING: ignored {', '.join(variables)}: settings of another kind of process"
    if secrets := [each.variable for each in _ALL if each.secret and each.variable in variables]:
        text += f"; keep {', '.join(sorted(secrets))} from processes that do not need it"
    return text
