"""Compiles conditions of conditions, and the tests of one property (`consuming.md, SQL92 values`).

Every form becomes one closure over the closures of its operands, from the properties of a message to true, false or
None for "unknown". A text that is not the number that a literal requires raises EvaluationError, which ends the whole
evaluation; AND and OR go from left to right and stop at what decides them, as in RocketMQ, so later operands raise
nothing.
"""

import operator
from collections.abc import Callable, Sequence

from ternmq_common.filters.sql_filter.expression_errors import IllegalExpression
from ternmq_common.filters.sql_filter.operands import (
    TAG,
    CompiledCondition,
    LiteralOperand,
    Operand,
    Properties,
    PropertyOperand,
    combine_operands,
    constant_condition,
    value_of,
)

_HAS_PART: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def as_condition(operand: Operand) -> CompiledCondition:
    """The operand where only a condition is allowed: a bare property is false if present, else unknown."""
    if isinstance(operand, CompiledCondition):
        return operand
    if isinstance(operand, PropertyOperand):
        name = operand.name
        return combine_operands(operand, evaluate=lambda properties: None if properties.get(name) is None else False)
    if isinstance(operand, LiteralOperand) and (operand.value is None or isinstance(operand.value, bool)):
        return constant_condition(operand.value, operand)
    raise IllegalExpression(operand.position, "a condition is expected, such as a > 1, not a value alone")


def compile_and(parts: Sequence[CompiledCondition]) -> CompiledCondition:
    """AND: false if one part is, else unknown if one part is; the tags are those that every part allows."""
    evaluates = tuple(part.evaluate for part in parts)

    def evaluate(properties: Properties) -> bool | None:
        verdict: bool | None = True
        for part in evaluates:
            answer = part(properties)
            if answer is False:
                return False
            if answer is None:
                verdict = None
        return verdict

    limits = [part.tags for part in parts if part.tags is not None]
    return combine_operands(*parts, evaluate=evaluate, tags=frozenset.intersection(*limits) if limits else None)


def compile_or(parts: Sequence[CompiledCondition]) -> CompiledCondition:
    """OR: true if one part is, else unknown if one part is; the tags are limited only if every part limits them."""
    evaluates = tuple(part.evaluate for part in parts)

    def evaluate(properties: Properties) -> bool | None:
        verdict: bool | None = False
        for part in evaluates:
            answer = part(properties)
            if answer:
                return True
            if answer is None:
                verdict = None
        return verdict

    limits = [part.tags for part in parts if part.tags is not None]
    return combine_operands(
        *parts, evaluate=evaluate, tags=frozenset().union(*limits) if len(limits) == len(parts) else None
    )


def compile_not(negated: CompiledCondition) -> CompiledCondition:
    """NOT: unknown stays unknown."""
    inner = negated.evaluate

    def evaluate(properties: Properties) -> bool | None:
        answer = inner(properties)
        return None if answer is None else not answer

    return combine_operands(negated, evaluate=evaluate)


def is_null(operand: Operand, *, negated: bool) -> CompiledCondition:
    value = value_of(operand)
    # `a IS NULL IS NULL` nests to the left.
    deeper = int(isinstance(operand, CompiledCondition))
    return combine_operands(
        operand, evaluate=lambda properties: (value(properties) is None) is not negated, deeper=deeper
    )


def is_in(operand: Operand, texts: frozenset[str], *, negated: bool) -> CompiledCondition:
    name = _require_property(operand, "IN").name

    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else (text in texts) is not negated

    return combine_operands(operand, evaluate=evaluate, tags=texts if name == TAG and not negated else None)


def has_part(operand: Operand, where: str, part: str, *, negated: bool) -> CompiledCondition:
    """CONTAINS and the like. A missing property and an empty `part` are false, with a NOT before them too."""
    name = _require_property(operand, where).name
    has = _HAS_PART[where]
    if not part:
        return constant_condition(False, operand)

    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return text is not None and has(text, part) is not negated

    return combine_operands(operand, evaluate=evaluate)


def _require_property(operand: Operand, word: str) -> PropertyOperand:
    if isinstance(operand, PropertyOperand):
        return operand
    raise IllegalExpression(operand.position, f"{word} needs a property on its left")
