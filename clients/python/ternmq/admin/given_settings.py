"""Writes settings that a caller gives into messages of the admin service, and reads them, by their descriptions."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ternmq.admin.requests.checks import (
    INT32_MAX,
    INT64_MAX,
    check_choice,
    check_flag,
    check_moment,
    check_text,
    check_whole,
)
from ternmq.times.durations import check_span
from ternmq_common.resources.resource_settings import Beginning, Choice, Flag, Limit, Setting, Span, Whole

if TYPE_CHECKING:
    from datetime import timedelta

    from google.protobuf.message import Message


def write_given(
    message: "Message",
    refusal: str,
    settings: Iterable[Setting],
    given: Mapping[str, Any],
    *,
    others: Iterable[str] = (),
) -> None:
    """Write what was given and is not None; TypeError, which begins with `refusal`, for a name that is unknown.

    `others` are known besides.
    """
    known = {each.name: each for each in settings}
    for name, value in given.items():
        if name not in known:
            from ternmq_common.settings import did_you_mean  # used only here

            raise TypeError(f"{refusal} {name!r}{did_you_mean(name, [*known, *others])}")
        if value is not None:
            known[name].kind.write_given(message, name, _checked_value(known[name], value))


def copy_given(message: "Message", settings: Iterable[Setting], there: object) -> None:
    """Write the settings of what a server sent."""
    for each in settings:
        each.kind.write_given(message, each.name, getattr(there, each.name))


def read_given(message: "Message", settings: Iterable[Setting]) -> dict[str, Any]:
    """Return the settings of a message, as a caller gives them."""
    return {each.name: _read_one(message, each) for each in settings}


def _read_one(message: "Message", setting: Setting) -> Any:  # noqa: ANN401 - that of any setting
    # Older servers lack settings that may be absent, and have the default.
    is_whole = isinstance(setting.kind, Whole) and setting.has_presence(message)
    if is_whole and not setting.is_in(message):
        return setting.default
    return setting.kind.read_given(message, setting.name)


def _checked_value(setting: Setting, value: Any) -> Any:  # noqa: ANN401
    name, kind = setting.name, setting.kind
    if isinstance(kind, Whole):
        return check_whole(name, value, least=kind.least, most=kind.most_early or INT32_MAX)
    if isinstance(kind, Limit):
        return check_whole(name, value, least=1, most=INT64_MAX)
    if isinstance(kind, Flag):
        return check_flag(name, value)
    if isinstance(kind, Choice):
        return check_choice(name, value, kind.words)
    if isinstance(kind, Span):
        return check_span(name, value) if kind.absent is None else _check_not_negative(name, check_span(name, value))
    if isinstance(value, datetime) and isinstance(kind, Beginning):
        return check_moment(name, value)
    return check_text(name, value)


def _check_not_negative(argument: str, value: "timedelta") -> "timedelta":
    if value.days < 0:
        raise ValueError(f"{argument}={value} must not be negative")
    return value
