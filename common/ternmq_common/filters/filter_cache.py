"""Filters from clients' filter expressions, with a cache of compiled SQL92 conditions."""

import asyncio
from typing import TYPE_CHECKING, Final

from ternmq_common.event_loop.done_result import DoneResult
from ternmq_common.filters.sql_filter import SqlFilter
from ternmq_common.filters.tag_filter import ALL, TagFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ternmq_common.filters.message_filter import FilterText, MessageFilter

_ALL_FOUND: Final = DoneResult(ALL)
# A compiled condition takes about a hundred bytes for each character of its text.
_CHARACTERS_MAX: Final = 256 * 1024


class FilterCache:
    """Creates filters, and remembers the conditions used last, up to a total number of characters."""

    def __init__(self, characters_max: int = _CHARACTERS_MAX) -> None:
        self._characters_max = characters_max
        self._compiled: dict[str, SqlFilter] = {}
        self._characters = 0

    def find_filter(self, written: "FilterText") -> "Awaitable[MessageFilter]":
        """Return the compiled filter; ILLEGAL_FILTER_EXPRESSION if the text is invalid."""
        text = written.expression
        if written.is_sql:
            return self._find_sql_filter(text)
        return _ALL_FOUND if text == "*" else DoneResult(TagFilter.parse_expression(text))

    async def _find_sql_filter(self, text: str) -> "MessageFilter":
        compiled = self._compiled.get(text)
        if compiled is None:
            # The first one imports the parser, and a long one takes milliseconds.
            compiled = await asyncio.to_thread(SqlFilter.parse_expression, text)
        self._remove_text(text)
        self._compiled[text] = compiled  # at the end, as the one used last
        self._characters += len(text)
        while self._characters > self._characters_max:
            self._remove_text(next(iter(self._compiled)))
        return compiled

    def _remove_text(self, text: str) -> None:
        if self._compiled.pop(text, None) is not None:
            self._characters -= len(text)
