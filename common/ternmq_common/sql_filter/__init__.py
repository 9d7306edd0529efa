"""SQL92 filters of messages: the text is compiled once and tried on stored bytes (`consuming.md, SQL92 grammar`,
`consuming.md, SQL92 values`).

expression          `SqlFilter`, all that others use
parser              lexer and grammar; imports lark, so it is imported only once somebody filters by SQL92
comparisons         =, <>, the order signs and BETWEEN
conditions          AND, OR, NOT, IS NULL, IN, CONTAINS and its like: what each demands, and its closure
operands            what the forms are made of
values              texts as numbers, the way Java reads them
stored_properties   the properties of a stored message
refusal             what a person reads about a text that is no expression
"""

from ternmq_common.sql_filter.expression import SqlFilter

__all__ = ["SqlFilter"]
