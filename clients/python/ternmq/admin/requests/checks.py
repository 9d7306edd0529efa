"""Checks arguments of the admin calls before anything is sent: a TypeError or ValueError says what to write.

Whether a name or a setting is valid is checked by the server, which answers with a code of the protocol.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def check_text(argument: str, value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{argument} is text, which {value!r} is not")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            error.reason = f"{argument} must not hold lone surrogates, which are no characters"
            raise
    return value


def check_texts(argument: str, values: Iterable[str]) -> list[str]:
    """Check a list of texts. A plain string is refused, since it would be split into its letters."""
    if isinstance(values, str):
        raise TypeError(f'{argument} is a list of names: write {argument}=["{values}"]')
    return [check_text(f"each of {argument}", value) for value in values]


def check_whole(argument: str, value: int, *, least: int = 0, most: int = INT32_MAX) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{argument} is a whole number, which {value!r} is not")
    if not least <= value <= most:
        raise ValueError(f"{argument}={value} must be from {least} to {most}")
    return value


def check_wholes(argument: str, values: Iterable[int], *, most: int = INT32_MAX) -> list[int]:
    if isinstance(values, int | str):
        raise TypeError(f"{argument} is a list of whole numbers: write {argument}=[{values}]")
    return [check_whole(f"each of {argument}", value, most=most) for value in values]


def check_flag(argument: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{argument} is True or False, which {value!r} is not")
    return value


def check_moment(argument: str, value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError(f"{argument} has no time zone: write datetime(..., tzinfo=UTC)")
    return value


def check_choice(argument: str, value: str, known: Sequence[str]) -> str:
    if check_text(argument, value) not in known:
        from ternmq_common.settings import did_you_mean  # used only here

        raise ValueError(f"{argument}={value!r}{did_you_mean(value, known)}")
    return value
