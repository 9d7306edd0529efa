"""Filters of the protocol as the plain values that operations take."""

from typing import TYPE_CHECKING

from ternmq_common.filters.message_filter import ALL_TEXT, FilterText
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_protos.v2.definition_pb2 import FilterExpression


def read_filter(expression: "FilterExpression") -> FilterText:
    """Return the filter as it was written; a type that is not SQL counts as TAG."""
    text, is_sql = expression.expression, expression.type == definition_pb2.SQL
    # Nearly all filters that a proxy remembers share this one.
    return ALL_TEXT if text == "*" and not is_sql else FilterText(text, is_sql)
