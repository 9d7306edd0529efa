"""Reads values of the file of `ternmq apply`, checked like the options of the commands; WrongUsage says where."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar, cast

from ternmq_command.group.settings import LITE_MODELS, PRIORITY_FACTOR_MAX, GroupSettings
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.moments import consume_from_of
from ternmq_command.terminal.options import lite_reset_of
from ternmq_common.assignment_strategy import AssignmentStrategy
from ternmq_common.errors import MessagingError
from ternmq_common.limits import ATTEMPTS_MAX, INVISIBLE_MAX_MS, LITE_TTL_MAX_MS, LITE_TTL_MIN_MS, SECOND_MS
from ternmq_common.lite_group import LITE_QUOTA_MAX
from ternmq_common.printable import cut
from ternmq_common.quotas import BURST_MS_MAX, BURST_MS_MIN
from ternmq_common.retry_backoff import parse_backoff
from ternmq_common.settings import did_you_mean
from ternmq_common.units import parsed_duration, rendered_duration

if TYPE_CHECKING:
    from ternmq.admin.words import LiteModel

Item = Mapping[str, object]
T = TypeVar("T")


def shown(value: object) -> str:
    """Return a value of the file, shortened, for an error text."""
    return cut(repr(value))


def declared_settings(item: Item, where: str) -> GroupSettings:
    return GroupSettings(
        max_attempts=count(item, "max_attempts", where, most=ATTEMPTS_MAX),
        retry_backoff=_parsed(item, "retry_backoff", where, _backoff),
        consume_from=_parsed(item, "consume_from", where, lambda text: consume_from_of(text, now=datetime.now(UTC))),
        assignment=_parsed(item, "assignment", where, _assignment),
        queue_lock_hold=_parsed(item, "queue_lock_hold", where, _duration),
        priority_factor=_priority_factor(item, where),
        lite_model=cast("LiteModel | None", choice(item, "lite_model", where, LITE_MODELS)),
        lite_quota=count(item, "lite_quota", where, most=LITE_QUOTA_MAX),
        lite_wildcard=_lite_wildcard(item, where),
        lite_reset=_parsed(item, "lite_reset", where, lite_reset_of),
    )


def burst(item: Item, where: str) -> timedelta | None:
    """Read a quota's burst; None if the file has none."""
    return _parsed(item, "burst", where, _burst)


def retention(item: Item, where: str) -> timedelta | None:
    """Read a topic's retention, 0 for `broker`; None if the file has none."""
    return _parsed(item, "retention", where, _retention)


def lite_ttl(item: Item, where: str) -> timedelta | None:
    """Read the TTL of a LITE topic, 0 for `none`; None if the file has none."""
    return _parsed(item, "lite_ttl", where, _lite_ttl)


def _lite_wildcard(item: Item, where: str) -> bool | None:
    value = item.get("lite_wildcard")
    if not (value is None or isinstance(value, bool)):
        raise WrongUsage(f"{where}: lite_wildcard must be true or false, not {shown(value)}")
    return value


def _priority_factor(item: Item, where: str) -> int | None:
    value = item.get("priority_factor")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= PRIORITY_FACTOR_MAX:
        raise WrongUsage(
            f"{where}: priority_factor must be a whole number from 0 to {PRIORITY_FACTOR_MAX}, not {shown(value)}"
        )
    return value


def count(item: Item, key: str, where: str, *, most: int) -> int | None:
    """Read a whole number from 1 to `most`; None if the file has none."""
    value = item.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise WrongUsage(f"{where}: {key} must be a whole number from 1 to {most}, not {shown(value)}")
    return value


def choice(item: Item, key: str, where: str, known: Sequence[str]) -> str | None:
    """Read one of the known words, in any case; None if the file has none."""
    value = item.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or value.lower() not in known:
        raise WrongUsage(f"{where}: {key} {shown(value)}{did_you_mean(cut(str(value)), known)}")
    return value.lower()


def _parsed(item: Item, key: str, where: str, parse: Callable[[str], T]) -> T | None:
    value = item.get(key)
    if value is None:
        return None
    # YAML and TOML have values for times; a plain number can only mean a duration, in seconds.
    text = value.isoformat() if isinstance(value, date | datetime) else value
    if isinstance(text, int) and not isinstance(text, bool) and parse in (_duration, _retention, _lite_ttl, _burst):
        text = str(text)
    if not isinstance(text, str):
        raise WrongUsage(f"{where}: {key} must be text, not {shown(value)}")
    try:
        return parse(text)
    except (ValueError, OverflowError) as error:
        raise WrongUsage(f"{where}: {key} {shown(text)}: {error}") from None


def _backoff(text: str) -> str:
    try:
        parse_backoff(text)
    except MessagingError as error:
        raise ValueError(error.message) from None
    return text.strip()


def _assignment(text: str) -> str:
    """Parse an assignment strategy, and return it as the server writes it."""
    try:
        return str(AssignmentStrategy.parse(text))
    except MessagingError as error:
        raise ValueError(error.message) from None


def _burst(text: str) -> timedelta:
    found = timedelta(seconds=float(parsed_duration(text, unit="s")))
    if not BURST_MS_MIN <= found / timedelta(milliseconds=1) <= BURST_MS_MAX:
        raise ValueError(f"{rendered_duration(BURST_MS_MIN)} to {rendered_duration(BURST_MS_MAX)} are allowed")
    return found


def _retention(text: str) -> timedelta:
    """Parse a retention; the server checks its limits."""
    return timedelta() if text == "broker" else timedelta(seconds=float(parsed_duration(text, unit="s")))


def _lite_ttl(text: str) -> timedelta:
    ttl = timedelta() if text == "none" else timedelta(seconds=float(parsed_duration(text, unit="s")))
    if ttl and not LITE_TTL_MIN_MS <= ttl / timedelta(milliseconds=1) <= LITE_TTL_MAX_MS:
        allowed = f"{rendered_duration(LITE_TTL_MIN_MS)} to {rendered_duration(LITE_TTL_MAX_MS)}"
        raise ValueError(f"{allowed} are allowed, none for no TTL")
    return ttl


def _duration(text: str) -> timedelta:
    """Parse how long a queue lock is held."""
    held = timedelta(seconds=float(parsed_duration(text, unit="s")))
    held_ms = held / timedelta(milliseconds=1)
    if held_ms and not SECOND_MS <= held_ms <= INVISIBLE_MAX_MS:
        allowed = f"{rendered_duration(SECOND_MS)} to {rendered_duration(INVISIBLE_MAX_MS)}"
        raise ValueError(f"{allowed} are allowed, 0s for none")
    return held
