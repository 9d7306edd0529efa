"""SQL92 filters of messages: the text is compiled once and evaluated on stored bytes.

See `consuming.md, SQL92 grammar` and `consuming.md, SQL92 values`.

  expression          `SqlFilter`, all that other packages use
  parser              lexer and grammar; imports lark, so it is imported only for the first SQL92 filter
  comparisons         =, <>, the order signs and BETWEEN
  conditions          AND, OR, NOT, IS NULL, IN, CONTAINS and the like: what each requires, and its closure
  operands            the parts of expressions
  values              texts as numbers, the way Java reads them
  stored_properties   the properties of a stored message
  refusal             the errors for invalid expressions
"""

from ternmq_common.filters.sql_filter.expression import SqlFilter

__all__ = ["SqlFilter"]
