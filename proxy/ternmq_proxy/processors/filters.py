"""The filters that clients ask with, each text compiled once."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.sql_filter import SqlFilter
from ternmq_common.tag_filter import TagFilter
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_common.message_filter import MessageFilter

_COMPILED_MAX = 1024


class Filters:
    """Remembers the SQL92 conditions that were used last."""

    def __init__(self) -> None:
        self._compiled: dict[str, SqlFilter] = {}

    async def of(self, expression: definition_pb2.FilterExpression) -> "MessageFilter":
        """The filter of a text; ILLEGAL_FILTER_EXPRESSION if it is none. A type that is not SQL counts as TAG."""
        text = expression.expression
        if expression.type != definition_pb2.SQL:
            return TagFilter.parse(text)
        compiled = self._compiled.pop(text, None)
        if compiled is None:
            # The first one loads the parser, and a long one takes milliseconds.
            compiled = await asyncio.to_thread(SqlFilter.parse, text)
        self._compiled[text] = compiled  # at the end, as the one used last
        if len(self._compiled) > _COMPILED_MAX:
            del self._compiled[next(iter(self._compiled))]
        return compiled
