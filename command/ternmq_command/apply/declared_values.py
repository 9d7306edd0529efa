"""Reads values of the file of `ternmq apply`, checked like the options of the commands; WrongUsage says where."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar, cast

from ternmq_command.group.settings import LITE_MODELS, PRIORITY_FACTOR_MAX, GroupSettings
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import parse_lite_reset
from ternmq_command.terminal.time_parsing import parse_consume_from
from ternmq_common.assignment_strategy import AssignmentStrategy
from ternmq_common.errors import MessagingError
from ternmq_common.limits import ATTEMPTS_MAX, INVISIBLE_MAX_MS, SECOND_MS
from ternmq_common.lite_group import LITE_QUOTA_MAX
from ternmq_common.printable import cut_text
from ternmq_common.quotas import BURST_MS_MAX, BURST_MS_MIN
from ternmq_common.resource_settings import Choice, Setting, Whole
from ternmq_common.retry_backoff import parse_backoff
from ternmq_common.settings import did_you_mean
from ternmq_common.units import parse_duration, render_duration

if TYPE_CHECKING:
    from ternmq.admin.words import LiteModel

Item = Mapping[str, object]
T = TypeVar("T")


def quote_value(value: object) -> str:
    """Return a value of the file, shortened, for an error text."""
    return cut_text(repr(value))


def read_group_settings(item: Item, where: str) -> GroupSettings:
    return GroupSettings(
        max_attempts=read_count(item, "max_attempts", where, most=ATTEMPTS_MAX),
        retry_backoff=_parse_text(item, "retry_backoff", where, _check_backoff),
        consume_from=_parse_text(
            item, "consume_from", where, lambda text: parse_consume_from(text, now=datetime.now(UTC))
        ),
        assignment=_parse_text(item, "assignment", where, _parse_assignment),
        queue_lock_hold=_parse_text(item, "queue_lock_hold", where, _parse_lock_hold, is_span=True),
        priority_factor=_read_priority_factor(item, where),
        lite_model=cast("LiteModel | None", read_choice(item, "lite_model", where, LITE_MODELS)),
        lite_quota=read_count(item, "lite_quota", where, most=LITE_QUOTA_MAX),
        lite_wildcard=_read_lite_wildcard(item, where),
        lite_reset=_parse_text(item, "lite_reset", where, parse_lite_reset),
    )


def read_burst(item: Item, where: str) -> timedelta | None:
    """Read a quota's burst; None if the file has none."""
    return _parse_text(item, "burst", where, _parse_burst, is_span=True)


def read_setting(item: Item, setting: Setting, where: str) -> object:
    """Read a described setting; None if the file has none."""
    if isinstance(setting.kind, Whole):
        return read_count(item, setting.name, where, most=setting.kind.most)
    if isinstance(setting.kind, Choice):
        return read_choice(item, setting.name, where, setting.kind.words)
    return _parse_text(item, setting.name, where, setting.kind.parse_text, is_span=True)


def _read_lite_wildcard(item: Item, where: str) -> bool | None:
    value = item.get("lite_wildcard")
    if not (value is None or isinstance(value, bool)):
        raise WrongUsage(f"{where}: lite_wildcard must be true or false, not {quote_value(value)}")
    return value


def _read_priority_factor(item: Item, where: str) -> int | None:
    value = item.get("priority_factor")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= PRIORITY_FACTOR_MAX:
        raise WrongUsage(
            f"{where}: priority_factor must be a whole number from 0 to {PRIORITY_FACTOR_MAX}, not {quote_value(value)}"
        )
    return value


def read_count(item: Item, key: str, where: str, *, most: int) -> int | None:
    """Read a whole number from 1 to `most`; None if the file has none."""
    value = item.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise WrongUsage(f"{where}: {key} must be a whole number from 1 to {most}, not {quote_value(value)}")
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


def _check_backoff(text: str) -> str:
    try:
        parse_backoff(text)
    except MessagingError as error:
        raise ValueError(error.message) from None
    return text.strip()


def _parse_assignment(text: str) -> str:
    """Parse an assignment strategy, and return it as the server writes it."""
    try:
        return str(AssignmentStrategy.parse_strategy(text))
    except MessagingError as error:
        raise ValueError(error.message) from None


def _parse_burst(text: str) -> timedelta:
    found = timedelta(seconds=float(parse_duration(text, unit="s")))
    if not BURST_MS_MIN <= found / timedelta(milliseconds=1) <= BURST_MS_MAX:
        raise ValueError(f"{render_duration(BURST_MS_MIN)} to {render_duration(BURST_MS_MAX)} are allowed")
    return found


def _parse_lock_hold(text: str) -> timedelta:
    """Parse how long a queue lock is held."""
    held = timedelta(seconds=float(parse_duration(text, unit="s")))
    held_ms = held / timedelta(milliseconds=1)
    if held_ms and not SECOND_MS <= held_ms <= INVISIBLE_MAX_MS:
        allowed = f"{render_duration(SECOND_MS)} to {render_duration(INVISIBLE_MAX_MS)}"
        raise ValueError(f"{allowed} are allowed, 0s for none")
    return held
