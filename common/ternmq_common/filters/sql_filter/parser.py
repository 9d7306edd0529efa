"""Lexer and grammar of SQL92 expressions (`consuming.md, SQL92 grammar`), from text to one condition.

Weak to strong: OR; AND; = <> IS; the order signs, BETWEEN, IN and the tests for parts of texts; NOT + -; parentheses.
NOT takes the nearest operand: `NOT a > 1` is `(NOT a) > 1` and refused, since a condition has no order.
Keywords are taken in any case and never are names. The text must be an expression up to its end, where RocketMQ takes
the longest beginning that is one.

The parser is LALR and keeps its own stack, so no text can exhaust Python's.
"""

import math
import re
from functools import cache
from typing import cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from ternmq_common.filters.sql_filter import comparisons, conditions
from ternmq_common.filters.sql_filter.expression_errors import END, IllegalExpression, misplaced_token, unreadable_text
from ternmq_common.filters.sql_filter.operands import (
    CompiledCondition,
    LiteralOperand,
    Operand,
    PropertyOperand,
    UnknownOperand,
    nest_operand,
)
from ternmq_common.filters.sql_filter.values import (
    INT32_LIMIT,
    INT64_LIMIT,
    NumberLiteral,
    fraction_literal,
    integer_literal,
    negate_number,
)

_CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}

# In lark's language `?` makes a rule of one part that part, `->` names the method of `_OperandBuilder`, and what begins
# with `_` is no argument of it. A keyword ends where no name could go on. `=` is no terminal before another sign, so
# that `==`, `=<` and `=>` are reported where they begin.
GRAMMAR = r"""
?either: both (_OR both)*
?both: equality (_AND equality)*
?equality: comparison
    | equality _EQUAL comparison                                 -> equal
    | equality _UNEQUAL comparison                               -> unequal
    | equality _IS [NOT] NULL                                    -> is_null
?comparison: unary
    | unary ORDER unary                                          -> ordered
    | unary [NOT] _BETWEEN unary _AND unary                      -> between
    | unary [NOT] _IN OPEN TEXT (_COMMA TEXT)* _CLOSE            -> is_in
    | unary [NOT] PART TEXT                                      -> has_part
?unary: primary
    | NOT unary                                                  -> negation
    | PLUS unary                                                 -> plus
    | MINUS unary                                                -> minus
?primary: OPEN either _CLOSE                                     -> group
    | NAME                                                       -> named
    | TEXT                                                       -> text
    | INTEGER                                                    -> integer
    | FRACTION                                                   -> fraction
    | (TRUE | FALSE | NULL)                                      -> constant

_AND.2: /and(?![\w$])/i
_OR.2: /or(?![\w$])/i
NOT.2: /not(?![\w$])/i
_IS.2: /is(?![\w$])/i
_IN.2: /in(?![\w$])/i
NULL.2: /null(?![\w$])/i
_BETWEEN.2: /between(?![\w$])/i
PART.2: /(contains|startswith|endswith)(?![\w$])/i
TRUE.2: /true(?![\w$])/i
FALSE.2: /false(?![\w$])/i
NAME: /[a-z_$][\w$]*/i
TEXT: /'[^']*(''[^']*)*'/
FRACTION.1: /([0-9]+\.[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
INTEGER: /[0-9]+l?/i
ORDER: ">=" | "<=" | ">" | "<"
_EQUAL: /=(?![=<>])/
_UNEQUAL.1: "<>"
PLUS: "+"
MINUS: "-"
OPEN: "("
_CLOSE: ")"
_COMMA: ","
BLANK: /[ \t\r\n\f]+/
LINE_COMMENT.3: /--[^\r\n]*/
COMMENT.3: /\/\*.*?\*\//s
%ignore BLANK
%ignore LINE_COMMENT
%ignore COMMENT
"""


def parse_expression(expression: str) -> CompiledCondition:
    """Parse the whole text as one condition; IllegalExpression if it is invalid."""
    try:
        # The type of `parse` is a tree, but `_OperandBuilder` has replaced that by an operand.
        operand = cast("Operand", _create_parser().parse(expression))
    except UnexpectedToken as error:
        position = len(expression) if error.token.type == END else error.token.start_pos
        raise misplaced_token(expression, position or 0, error.accepts) from None
    except UnexpectedCharacters as error:
        raise unreadable_text(expression, error.pos_in_stream or 0) from None
    return conditions.as_condition(operand)


@cache
def _create_parser() -> "Lark":
    # Basic: keywords are keywords everywhere. ASCII: without it, \w and the case of letters reach beyond.
    return Lark(
        GRAMMAR, parser="lalr", lexer="basic", start="either", transformer=_OperandBuilder(), g_regex_flags=re.ASCII
    )


@v_args(inline=True)
class _OperandBuilder(Transformer[Token, Operand]):
    """Builds each operand when the parser has recognised it; it has no state, so one object serves all threads."""

    def either(self, *operands: Operand) -> Operand:
        return conditions.compile_or([conditions.as_condition(operand) for operand in operands])

    def both(self, *operands: Operand) -> Operand:
        return conditions.compile_and([conditions.as_condition(operand) for operand in operands])

    def equal(self, left: Operand, right: Operand) -> Operand:
        return comparisons.compile_equality(left, right, negated=False)

    def unequal(self, left: Operand, right: Operand) -> Operand:
        return comparisons.compile_equality(left, right, negated=True)

    def is_null(self, operand: Operand, negation: Token | None, _null: Token) -> Operand:
        return conditions.is_null(operand, negated=negation is not None)

    def ordered(self, left: Operand, sign: Token, right: Operand) -> Operand:
        return comparisons.compile_order(left, str(sign), right)

    def between(self, operand: Operand, negation: Token | None, low: Operand, high: Operand) -> Operand:
        return comparisons.compile_between(operand, low, high, negated=negation is not None)

    def is_in(self, operand: Operand, negation: Token | None, _open: Token, *texts: Token) -> Operand:
        return conditions.is_in(operand, frozenset(map(_unquote_text, texts)), negated=negation is not None)

    def has_part(self, operand: Operand, negation: Token | None, where: Token, part: Token) -> Operand:
        return conditions.has_part(operand, where.upper(), _unquote_text(part), negated=negation is not None)

    def negation(self, sign: Token, operand: Operand) -> Operand:
        return conditions.compile_not(nest_operand(conditions.as_condition(operand), _position_of(sign)))

    def plus(self, sign: Token, operand: Operand) -> Operand:
        return nest_operand(operand, _position_of(sign))

    def minus(self, sign: Token, operand: Operand) -> Operand:
        operand = nest_operand(operand, _position_of(sign))
        if isinstance(operand, LiteralOperand) and isinstance(operand.value, NumberLiteral):
            return LiteralOperand(position=operand.position, depth=operand.depth, value=negate_number(operand.value))
        if isinstance(operand, PropertyOperand | UnknownOperand):
            return UnknownOperand(position=operand.position, depth=operand.depth)
        raise IllegalExpression(operand.position, "a minus is allowed before a number only")

    def group(self, opening: Token, operand: Operand) -> Operand:
        return nest_operand(operand, _position_of(opening))

    def named(self, name: Token) -> Operand:
        return PropertyOperand(position=_position_of(name), name=str(name))

    def text(self, token: Token) -> Operand:
        return LiteralOperand(position=_position_of(token), value=_unquote_text(token))

    def integer(self, token: Token) -> Operand:
        return LiteralOperand(position=_position_of(token), value=_parse_integer(token))

    def fraction(self, token: Token) -> Operand:
        return LiteralOperand(position=_position_of(token), value=_parse_fraction(token))

    def constant(self, token: Token) -> Operand:
        return LiteralOperand(position=_position_of(token), value=_CONSTANTS[token.upper()])


def _position_of(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos


def _unquote_text(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _parse_integer(token: Token) -> NumberLiteral:
    """Parse an integer literal; with an L, or above 32 bits, texts are compared as 64 bits."""
    digits = token.rstrip("lL")
    if len(digits) > 1 and digits[0] == "0":
        raise IllegalExpression(_position_of(token), "an integer has no leading zero")
    # A longer text need not become a number, which takes Python long, to be too large.
    if len(digits) > len(str(INT64_LIMIT)) or (value := int(digits)) >= INT64_LIMIT:
        raise IllegalExpression(_position_of(token), f"the integer is larger than {INT64_LIMIT - 1}")
    return integer_literal(value, is_long=digits != token or value >= INT32_LIMIT)


def _parse_fraction(token: Token) -> NumberLiteral:
    value = float(token)
    if value == 0.0:
        raise IllegalExpression(_position_of(token), "the fraction is 0; write the integer 0")
    if math.isinf(value):
        raise IllegalExpression(_position_of(token), "the fraction is larger than a double can be")
    return fraction_literal(value)
