"""Reads values of the file of `ternmq apply`, checked like the options of the commands; WrongUsage says where."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.time_parsing import parse_consume_from
from ternmq_common.errors import MessagingError
from ternmq_common.printable import cut_text
from ternmq_common.resources.quotas import BURST_MS_MAX, BURST_MS_MIN
from ternmq_common.resources.resource_settings import Beginning, Choice, Flag, Setting, Span, Whole
from ternmq_common.settings import did_you_mean
from ternmq_common.units import parse_duration, render_duration

Item = Mapping[str, object]
T = TypeVar("T")


def quote_value(value: object) -> str:
    """Return a value of the file, shortened, for an error text."""
    return cut_text(repr(value))


def read_burst(item: Item, where: str) -> timedelta | None:
    """Read a quota's burst; None if the file has none."""
    return _parse_text(item, "burst", where, _parse_burst, is_span=True)


def read_settings(item: Item, settings: Iterable[Setting], where: str) -> dict[str, Any]:
    """Read described settings; None for those that the file does not have."""
    return {each.name: _read_setting(item, each, where) for each in settings}


def _read_setting(item: Item, setting: Setting, where: str) -> object:
    kind = setting.kind
    if isinstance(kind, Flag):
        return read_flag(item, setting.name, where)
    if isinstance(kind, Whole):
        return _read_whole(item, setting.name, where, least=kind.least, most=kind.most)
    if isinstance(kind, Choice):
        return read_choice(item, setting.name, where, kind.words)
    parse = _parse_beginning if isinstance(kind, Beginning) else kind.parse_text
    return _parse_text(item, setting.name, where, parse, is_span=isinstance(kind, Span))


def _parse_beginning(text: str) -> str:
    return parse_consume_from(text, now=datetime.now(UTC))


def read_flag(item: Item, key: str, where: str) -> bool | None:
    value = item.get(key)
    if not (value is None or isinstance(value, bool)):
        raise WrongUsage(f"{where}: {key} must be true or false, not {quote_value(value)}")
    return value


def _read_whole(item: Item, key: str, where: str, *, least: int, most: int) -> int | None:
    value = item.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise WrongUsage(f"{where}: {key} must be a whole number from {least} to {most}, not {quote_value(value)}")
    return value


def read_choice(item: Item, key: str, where: str, known: Sequence[str]) -> str | None:
    """Read one of the known words, in any case; None if the file has none."""
    value = item.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or value.lower() not in known:
        raise WrongUsage(f"{where}: {key} {quote_value(value)}{did_you_mean(cut_text(str(value)), known)}")
    return value.lower()


def _parse_text(item: Item, key: str, where: str, parse: Callable[[str], T], *, is_span: bool = False) -> T | None:
    value = item.get(key)
    if value is None:
        return None
    # YAML and TOML have values for times; a plain number can only mean a duration, in seconds.
    text = value.isoformat() if isinstance(value, date | datetime) else value
    if is_span and isinstance(text, int) and not isinstance(text, bool):
        text = str(text)
    if not isinstance(text, str):
        raise WrongUsage(f"{where}: {key} must be text, not {quote_value(value)}")
    try:
        return parse(text)
    except (ValueError, OverflowError) as error:
        raise WrongUsage(f"{where}: {key} {quote_value(text)}: {error}") from None
    except MessagingError as error:
        raise WrongUsage(f"{where}: {key} {quote_value(text)}: {error.message}") from None


def _parse_burst(text: str) -> timedelta:
    found = timedelta(seconds=float(parse_duration(text, unit="s")))
    if not BURST_MS_MIN <= found / timedelta(milliseconds=1) <= BURST_MS_MAX:
        raise ValueError(f"{render_duration(BURST_MS_MIN)} to {render_duration(BURST_MS_MAX)} are allowed")
    return found
