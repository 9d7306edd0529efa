"""Reads forms and queries, and parses their fields into values of calls."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from ternmq_common.units import parse_duration
from ternmq_protos.pool import Duration, Timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

FORM_BYTES_MAX = 64 * 1024
FIELDS_MAX = 200
SESSION_FIELD = "token"


def utc_time(text: str) -> datetime:
    """Parse a time as browsers send it or as pages show it, `2026-11-26 07:06:02.160 UTC`; in UTC without an offset.

    Raises ValueError and OverflowError.
    """
    at = datetime.fromisoformat(text.removesuffix("UTC").rstrip())
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


class BadForm(Exception):
    """The value of a field is invalid; `field` is its name."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


class PageForm:
    """The fields of a form or query; of a repeated field the last value counts, except in `texts`."""

    def __init__(self, pairs: "Iterable[tuple[str, str]]") -> None:
        self._values: dict[str, list[str]] = {}
        for field, value in pairs:
            self._values.setdefault(field, []).append(value)

    @classmethod
    async def read_from(cls, request: "Request") -> "PageForm":
        """Read the form of a request; raises BadForm if it is too long."""
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > FORM_BYTES_MAX:
                raise BadForm("", f"a form has {FORM_BYTES_MAX} bytes at most")
        try:
            pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX)
        except ValueError as error:
            raise BadForm("", "this is no form") from error
        return cls(pairs)

    @classmethod
    def of_query(cls, request: "Request") -> "PageForm":
        """Return the fields of the request's query."""
        return cls(request.query_params.multi_items())

    def text(self, field: str) -> str:
        """Return the text of a field without surrounding blanks; empty if it is missing."""
        return self.raw(field).strip()

    def raw(self, field: str) -> str:
        """Return the exact text of a field."""
        return self._values.get(field, [""])[-1]

    def texts(self, field: str) -> list[str]:
        """Return all values of a field that may be repeated, at most FIELDS_MAX."""
        return [value.strip() for value in self._values.get(field, ())]

    def is_set(self, field: str) -> bool:
        return bool(self.text(field))

    def parse_integer(self, field: str, *, least: int = 0) -> int:
        """Parse a whole number; raises BadForm."""
        text = self.text(field).replace(",", "")
        try:
            number = int(text)
        except ValueError:
            raise BadForm(field, f"{text!r} is no whole number") from None
        if number < least:
            raise BadForm(field, f"{number} is less than {least}")
        return number

    def parse_duration(self, field: str) -> Duration:
        """Parse a duration such as `90s`, `12h`, `3d`; raises BadForm."""
        text, duration = self.text(field), Duration()
        try:
            duration.FromMilliseconds(int(parse_duration(text, unit="ms")))
        except ValueError as error:
            raise BadForm(field, f"{text!r} is no duration; 90s, 12h and 3d are") from error
        return duration

    def parse_time(self, field: str) -> Timestamp:
        """Parse a time as `utc_time` does; raises BadForm."""
        text = self.text(field)
        try:
            at = utc_time(text)
        except (ValueError, OverflowError):
            raise BadForm(field, f"{text!r} is no time") from None
        time = Timestamp()
        time.FromDatetime(at)
        return time

    def check_confirmation(self, name: str, field: str = "confirmation") -> None:
        """Raise BadForm unless that name was typed as confirmation."""
        if self.raw(field) != name:
            raise BadForm(field, f"type the name, {name}, to confirm")
