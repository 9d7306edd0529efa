"""Comparisons of two operands: `=`, `<>`, the order signs and BETWEEN (`consuming.md, SQL92 values`).

Only numbers have an order, and a property against a number is parsed as the literal's type requires. The kinds of both
sides are known before any message, so the comparison is chosen once.
"""

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from ternmq_common.sql_filter.conditions import all_of, any_of
from ternmq_common.sql_filter.operands import (
    TAG,
    Condition,
    Evaluate,
    Literal,
    Operand,
    Properties,
    Property,
    Unknown,
    combined,
    constant,
    value_of,
)
from ternmq_common.sql_filter.refusal import IllegalExpression
from ternmq_common.sql_filter.values import EvaluationError, Number, comparable, double

Same = Callable[[Any, Any], bool]
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def between(operand: Operand, low: Operand, high: Operand, *, negated: bool) -> Condition:
    """BETWEEN with both bounds included; each is a number or a property."""
    for compared in (operand, low, high):
        _check_has_order(compared, "BETWEEN")
    outside = any_of([ordered(operand, "<", low), ordered(operand, ">", high)])
    if isinstance(low, Literal) and isinstance(high, Literal) and operator.gt(*comparable(_number(low), _number(high))):
        raise IllegalExpression(low.position, "BETWEEN needs the lower number first")
    if negated:
        return outside
    return all_of([ordered(operand, ">=", low), ordered(operand, "<=", high)])


def ordered(left: Operand, sign: str, right: Operand) -> Condition:
    """`<` and the like, between numbers only: unknown if a side is; two properties are compared as doubles."""
    _check_has_order(left, sign)
    _check_has_order(right, sign)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return constant(None, left, right)
    if isinstance(left, Property):
        if isinstance(right, Property):
            return combined(left, right, evaluate=_ordered_properties(left.name, sign, right.name))
        return combined(left, right, evaluate=_ordered(left.name, sign, _number(right)))
    if isinstance(right, Property):
        return combined(left, right, evaluate=_ordered(right.name, _MIRRORED[sign], _number(left)))
    return constant(_COMPARE[sign](*comparable(_number(left), _number(right))), left, right)


def _ordered(name: str, sign: str, number: Number) -> Evaluate:
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
        return compare(double(left_text), double(right_text))

    return evaluate


def equal(left: Operand, right: Operand, *, negated: bool) -> Condition:
    """`=` and `<>`. Where only the left is missing: unknown; only the right: not equal; both: equal."""
    _check_can_be_equal(left, right, negated=negated)
    same = _sameness(left, right)
    if isinstance(left, Property) and isinstance(right, Literal):
        evaluate = _equal_to_literal(left.name, same, right.value, negated=negated)
    else:
        evaluate = _equal(value_of(left), same, value_of(right), negated=negated)
    tags = None if negated else _equal_tags(left, right) or _equal_tags(right, left)
    # `a = b = c` nests to the left.
    return combined(left, right, evaluate=evaluate, tags=tags, deeper=int(isinstance(left, Condition)))


def _equal(
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
    if isinstance(left, Property) and left.name == TAG and isinstance(right, Literal) and isinstance(right.value, str):
        return frozenset({right.value})
    return None


def _sameness(left: Operand, right: Operand) -> Same:
    """The comparison for two values that are both present, by their kinds, which are known beforehand."""
    match _kind(left), _kind(right):
        case ("text", "text") | ("truth", "truth"):
            return operator.eq
        case "text", "number":
            return lambda text, number: number.read(text) == number.key
        case "number", "text":
            return lambda number, text: number.read(text) == number.key
        case "number", "number":
            return lambda one, other: operator.eq(*comparable(one, other))
        case "text", "truth":
            return lambda text, truth: (text.lower() == "true") is truth
        case "truth", "text":
            return _no_truth
    return lambda _left, _right: False


def _no_truth(_truth: bool, text: str) -> NoReturn:
    """Refuse a text on the right of a condition: it is not parsed as TRUE or FALSE."""
    raise EvaluationError(text)


def _kind(operand: Operand) -> str:
    if isinstance(operand, Condition) or (isinstance(operand, Literal) and isinstance(operand.value, bool)):
        return "truth"
    return "number" if isinstance(operand, Literal) and isinstance(operand.value, Number) else "text"


def _number(operand: Operand) -> Number:
    assert isinstance(operand, Literal)
    assert isinstance(operand.value, Number)
    return operand.value


def _check_has_order(operand: Operand, sign: str) -> None:
    if isinstance(operand, Condition):
        raise IllegalExpression(
            operand.position, f"{sign} can't compare a condition; NOT needs parentheses: NOT (a > 1)"
        )
    if isinstance(operand, Literal) and not isinstance(operand.value, Number):
        raise IllegalExpression(operand.position, f"{sign} compares numbers only; others can be compared with = or <>")


def _check_can_be_equal(left: Operand, right: Operand, *, negated: bool) -> None:
    for operand in (left, right):
        if isinstance(operand, Literal) and operand.value is None:
            raise IllegalExpression(operand.position, f"NULL can't be compared; write IS {'NOT ' * negated}NULL")
    if _is_constant_truth(left) and not _is_constant_truth(right):
        raise IllegalExpression(left.position, "TRUE and FALSE stand on the right of a property")
    if _is_constant_truth(right) and isinstance(left, Literal) and not _is_constant_truth(left):
        raise IllegalExpression(right.position, "TRUE and FALSE can't be compared with a number or a text")


def _is_constant_truth(operand: Operand) -> bool:
    return isinstance(operand, Literal) and isinstance(operand.value, bool)
