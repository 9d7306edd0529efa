"""Comparisons of two operands: `=`, `<>`, the order signs and BETWEEN (`consuming.md, SQL92 values`).

Only numbers have an order, and a property against a number is parsed as the literal's type requires. The kinds of both
sides are known before any message, so the comparison is chosen once.
"""

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from ternmq_common.filters.sql_filter.conditions import compile_and, compile_or
from ternmq_common.filters.sql_filter.expression_errors import IllegalExpression
from ternmq_common.filters.sql_filter.operands import (
    TAG,
    CompiledCondition,
    Evaluate,
    LiteralOperand,
    Operand,
    Properties,
    PropertyOperand,
    UnknownOperand,
    combine_operands,
    constant_condition,
    value_of,
)
from ternmq_common.filters.sql_filter.values import EvaluationError, NumberLiteral, parse_double, to_same_type

Same = Callable[[Any, Any], bool]
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def compile_between(operand: Operand, low: Operand, high: Operand, *, negated: bool) -> CompiledCondition:
    """BETWEEN with both bounds included; each is a number or a property."""
    for compared in (operand, low, high):
        _check_has_order(compared, "BETWEEN")
    outside = compile_or([compile_order(operand, "<", low), compile_order(operand, ">", high)])
    if (
        isinstance(low, LiteralOperand)
        and isinstance(high, LiteralOperand)
        and operator.gt(*to_same_type(_number_of(low), _number_of(high)))
    ):
        raise IllegalExpression(low.position, "BETWEEN needs the lower number first")
    if negated:
        return outside
    return compile_and([compile_order(operand, ">=", low), compile_order(operand, "<=", high)])


def compile_order(left: Operand, sign: str, right: Operand) -> CompiledCondition:
    """`<` and the like, between numbers only: unknown if a side is; two properties are compared as doubles."""
    _check_has_order(left, sign)
    _check_has_order(right, sign)
    if isinstance(left, UnknownOperand) or isinstance(right, UnknownOperand):
        return constant_condition(None, left, right)
    if isinstance(left, PropertyOperand):
        if isinstance(right, PropertyOperand):
            return combine_operands(left, right, evaluate=_ordered_properties(left.name, sign, right.name))
        return combine_operands(left, right, evaluate=_order_against_number(left.name, sign, _number_of(right)))
    if isinstance(right, PropertyOperand):
        return combine_operands(
            left, right, evaluate=_order_against_number(right.name, _MIRRORED[sign], _number_of(left))
        )
    return constant_condition(_COMPARE[sign](*to_same_type(_number_of(left), _number_of(right))), left, right)


def _order_against_number(name: str, sign: str, number: NumberLiteral) -> Evaluate:
    compare, read, key = _COMPARE[sign], number.read, number.key

    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else compare(read(text), key)

    return evaluate


def _ordered_properties(left: str, sign: str, right: str) -> Evaluate:
    compare = _COMPARE[sign]

    def evaluate(properties: Properties) -> bool | None:
        left_text, right_text = properties.get(left), properties.get(right)
        if left_text is None or right_text is None:
            return None
        return compare(parse_double(left_text), parse_double(right_text))

    return evaluate


def compile_equality(left: Operand, right: Operand, *, negated: bool) -> CompiledCondition:
    """`=` and `<>`. Where only the left is missing: unknown; only the right: not equal; both: equal."""
    _check_can_be_equal(left, right, negated=negated)
    same = _choose_comparison(left, right)
    if isinstance(left, PropertyOperand) and isinstance(right, LiteralOperand):
        evaluate = _equal_to_literal(left.name, same, right.value, negated=negated)
    else:
        evaluate = _evaluate_equality(value_of(left), same, value_of(right), negated=negated)
    tags = None if negated else _equal_tags(left, right) or _equal_tags(right, left)
    # `a = b = c` nests to the left.
    return combine_operands(left, right, evaluate=evaluate, tags=tags, deeper=int(isinstance(left, CompiledCondition)))


def _evaluate_equality(
    left: Callable[[Properties], Any], same: Same, right: Callable[[Properties], Any], *, negated: bool
) -> Evaluate:
    def evaluate(properties: Properties) -> bool | None:
        left_now, right_now = left(properties), right(properties)
        if left_now is None:
            return None if right_now is not None else not negated
        return (right_now is not None and same(left_now, right_now)) is not negated

    return evaluate


def _equal_to_literal(name: str, same: Same, value: object, *, negated: bool) -> Evaluate:
    """The form of nearly all comparisons, without what only the others need."""

    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else same(text, value) is not negated

    return evaluate


def _equal_tags(left: Operand, right: Operand) -> frozenset[str] | None:
    if (
        isinstance(left, PropertyOperand)
        and left.name == TAG
        and isinstance(right, LiteralOperand)
        and isinstance(right.value, str)
    ):
        return frozenset({right.value})
    return None


def _choose_comparison(left: Operand, right: Operand) -> Same:
    """The comparison for two values that are both present, by their kinds, which are known beforehand."""
    match _kind_of(left), _kind_of(right):
        case ("text", "text") | ("truth", "truth"):
            return operator.eq
        case "text", "number":
            return lambda text, number: number.read(text) == number.key
        case "number", "text":
            return lambda number, text: number.read(text) == number.key
        case "number", "number":
            return lambda one, other: operator.eq(*to_same_type(one, other))
        case "text", "truth":
            return lambda text, truth: (text.lower() == "true") is truth
        case "truth", "text":
            return _no_truth
    return lambda _left, _right: False


def _no_truth(_truth: bool, text: str) -> NoReturn:
    """Refuse a text on the right of a condition: it is not parsed as TRUE or FALSE."""
    raise EvaluationError(text)


def _kind_of(operand: Operand) -> str:
    if isinstance(operand, CompiledCondition) or (
        isinstance(operand, LiteralOperand) and isinstance(operand.value, bool)
    ):
        return "truth"
    return "number" if isinstance(operand, LiteralOperand) and isinstance(operand.value, NumberLiteral) else "text"


def _number_of(operand: Operand) -> NumberLiteral:
    assert isinstance(operand, LiteralOperand)
    assert isinstance(operand.value, NumberLiteral)
    return operand.value


def _check_has_order(operand: Operand, sign: str) -> None:
    if isinstance(operand, CompiledCondition):
        raise IllegalExpression(
            operand.position, f"{sign} can't compare a condition; NOT needs parentheses: NOT (a > 1)"
        )
    if isinstance(operand, LiteralOperand) and not isinstance(operand.value, NumberLiteral):
        raise IllegalExpression(operand.position, f"{sign} compares numbers only; others can be compared with = or <>")


def _check_can_be_equal(left: Operand, right: Operand, *, negated: bool) -> None:
    for operand in (left, right):
        if isinstance(operand, LiteralOperand) and operand.value is None:
            raise IllegalExpression(operand.position, f"NULL can't be compared; write IS {'NOT ' * negated}NULL")
    if _is_constant_truth(left) and not _is_constant_truth(right):
        raise IllegalExpression(left.position, "TRUE and FALSE stand on the right of a property")
    if _is_constant_truth(right) and isinstance(left, LiteralOperand) and not _is_constant_truth(left):
        raise IllegalExpression(right.position, "TRUE and FALSE can't be compared with a number or a text")


def _is_constant_truth(operand: Operand) -> bool:
    return isinstance(operand, LiteralOperand) and isinstance(operand.value, bool)
