"""Writes settings that a caller gives into messages of the admin service, and reads them, by their descriptions."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ternmq.admin.checks import check_choice, check_whole
from ternmq.durations import check_span
from ternmq_common.resource_settings import Choice, Setting, Whole

if TYPE_CHECKING:
    from datetime import timedelta

    from google.protobuf.message import Message


def write_given(message: "Message", of: str, settings: Iterable[Setting], given: Mapping[str, Any]) -> None:
    """Write what was given and is not None; TypeError for a setting that `of`, such as a topic, does not have."""
    known = {each.name: each for each in settings}
    for name, value in given.items():
        if name not in known:
            from ternmq_common.settings import did_you_mean  # used only here

            raise TypeError(f"a {of} has no setting {name!r}{did_you_mean(name, known)}")
        if value is not None:
            known[name].kind.write_given(message, name, _checked_value(known[name], value))


def read_given(message: "Message", settings: Iterable[Setting]) -> dict[str, Any]:
    """Return the settings of a message, as a caller gives them."""
    return {each.name: each.kind.read_given(message, each.name) for each in settings}


def _checked_value(setting: Setting, value: Any) -> Any:  # noqa: ANN401 - that of any setting
    if isinstance(setting.kind, Whole):
        return check_whole(setting.name, value, least=setting.kind.least)
    if isinstance(setting.kind, Choice):
        return check_choice(setting.name, value, setting.kind.words)
    return _check_not_negative(setting.name, check_span(setting.name, value))


def _check_not_negative(argument: str, value: "timedelta") -> "timedelta":
    if value.days < 0:
        raise ValueError(f"{argument}={value} must not be negative")
    return value
