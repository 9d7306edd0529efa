"""Loads typed settings from defaults < a TOML file < `TERNMQ_*` variables < flags, each value with its origin.

`setting.py` says what a settings class is, and how its keys, variables and values are written.

Links       variables that Kubernetes sets for Services are no settings (`service_links.py`): ignored, and reported
Others      variables that are settings of another kind of process are ignored, and reported: several kinds may share
            one list of variables. In files they are errors, as a file is for one process.
Former      names of expert settings without `expert` in front are read, and reported; one source may have one of both
Passwords   those in URLs are never shown, in any field, and no value of a secret setting

A class raises `InvalidSetting` for a value that it refuses; here that becomes one line with the value's origin.
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from ternmq_common.errors import StartupError
from ternmq_common.resources.setting import EXPERT, VARIABLE_PREFIX, InvalidSetting, Setting, settings_of
from ternmq_common.service_links import is_service_link

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Read by the `ternmq` command itself, not settings of a process.
OTHER_VARIABLES = frozenset(
    {
        "TERNMQ_ACCESS_KEY",
        "TERNMQ_CA",
        "TERNMQ_CLIENT_CERT",
        "TERNMQ_CLIENT_KEY",
        "TERNMQ_CONFIG",
        "TERNMQ_CONTEXT",
        "TERNMQ_CREDENTIALS_FILE",
        "TERNMQ_ENDPOINT",
        "TERNMQ_SCHEMA_REGISTRY_PASSWORD",
        "TERNMQ_SCHEMA_REGISTRY_USER",
        "TERNMQ_SECRET_KEY",
        "TERNMQ_SERVER_NAME",
        "TERNMQ_SESSION_TOKEN",
        "TERNMQ_TLS",
    }
)
"""Those of the command and of its calls."""
DEFAULT = "default"

S = TypeVar("S", bound="DataclassInstance")


class SettingsError(StartupError):
    """A setting is unknown, unreadable or out of range; the text names it and its origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings(Generic[S]):
    """Settings in force, and the origin of each field's value.

    `ignored` are variables that only look like settings, `others` those of other kinds of processes. `former` are
    the names of expert settings that were given without `expert`, each with the name that it has now.
    """

    settings: S
    origins: dict[str, str]
    ignored: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    former: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _GivenValue:
    value: object
    origin: str
    former: tuple[str, str] | None = None
    """The former name by which it was given, and the one that it has now."""


_Given = dict[str, _GivenValue]
_Known = Mapping[str, Setting]


def load_settings(
    cls: type[S],
    *,
    file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    known_elsewhere: Iterable[Setting] = (),
) -> LoadedSettings[S]:
    """Load settings of the class `cls`; a flag with the value None was not given.

    `known_elsewhere` are those of other settings classes, whose variables are no errors here.
    """
    known = settings_of(cls)
    assert flags.keys() <= known.keys(), f"flags without a field: {flags.keys() - known.keys()}"
    given = {} if file is None else _read_file(file, known)
    foreign = _by_variable(each for each in known_elsewhere if each.name not in known).keys()
    others = tuple(sorted(foreign & environ.keys()))
    ignored = _service_links({key: text for key, text in environ.items() if key not in others}, known)
    left_out = {*others, *ignored}
    from_environment = _read_environment({key: text for key, text in environ.items() if key not in left_out}, known)
    former = [each.former for source in (given, from_environment) for each in source.values() if each.former]
    given |= from_environment
    given |= {name: _GivenValue(value, known[name].option) for name, value in flags.items() if value is not None}
    origins = {name: given[name].origin if name in given else DEFAULT for name in known}
    values = {name: _parse_value(known[name], entry) for name, entry in given.items()}
    try:
        settings = cls(**values)
    except InvalidSetting as refusal:
        refused = known[refusal.name]
        shown = refused.render(values.get(refused.name, refused.default))
        raise SettingsError(f"{refused.key} = {shown} (from {origins[refused.name]}): {refusal.problem}") from None
    return LoadedSettings(settings=settings, origins=origins, ignored=ignored, others=others, former=tuple(former))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: `; did you mean 'grpc'?`, or all that is known."""
    names = sorted(known)
    nearest = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else f"; known are {', '.join(names)}"


def _read_file(file: Path, known: _Known) -> _Given:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"can't read the settings file {file}: {reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the settings file {file} is not TOML: {error}") from None
    expert = table.pop(EXPERT, {})
    if not isinstance(expert, dict):
        raise SettingsError(f"{EXPERT} = {expert!r} (from file {file}): a table is needed")
    values = table | {f"{EXPERT}.{name}": value for name, value in expert.items()}
    by_key = {each.key: each for each in known.values()} | {name: each for name, each in known.items() if each.expert}
    given: _Given = {}
    for key, value in values.items():
        if key not in by_key:
            raise SettingsError(
                f"unknown setting {key!r} in {file}{did_you_mean(key, (e.key for e in known.values()))}"
            )
        _add_given(given, by_key[key], value, key, by_key[key].key, f"file {file}")
    return given


def _service_links(environ: Mapping[str, str], known: _Known) -> tuple[str, ...]:
    settings = {*_by_variable(known.values()), *OTHER_VARIABLES}
    named = (key for key in environ if key.startswith(VARIABLE_PREFIX) and key not in settings)
    return tuple(sorted(key for key in named if is_service_link(key, environ[key])))


def _read_environment(environ: Mapping[str, str], known: _Known) -> _Given:
    by_variable = _by_variable(known.values())
    ours = {key: text for key, text in environ.items() if key.startswith(VARIABLE_PREFIX)}
    for variable in sorted(ours.keys() - by_variable.keys() - OTHER_VARIABLES):
        named = [*(each.variable for each in known.values()), *OTHER_VARIABLES]
        raise SettingsError(f"unknown variable {variable}{did_you_mean(variable, named)}")
    given: _Given = {}
    for key in sorted(ours.keys() & by_variable.keys()):
        _add_given(given, by_variable[key], ours[key], key, by_variable[key].variable, key)
    return given


def _by_variable(settings: Iterable[Setting]) -> dict[str, Setting]:
    """The settings by their variables, former ones too."""
    return {name: each for each in settings for name in (each.variable, each.former_variable) if name is not None}


def _add_given(given: _Given, setting: Setting, value: object, name: str, current: str, origin: str) -> None:
    if setting.name in given:
        raise SettingsError(f"{current} is given by its former name too (from {origin}); one of both is needed")
    given[setting.name] = _GivenValue(value, origin, None if name == current else (name, current))


def _parse_value(setting: Setting, given: _GivenValue) -> object:
    try:
        return setting.parse(given.value)
    except (ValueError, InvalidOperation) as error:
        shown = setting.render_given(given.value)
        raise SettingsError(f"{setting.key} = {shown} (from {given.origin}): {error}") from None
