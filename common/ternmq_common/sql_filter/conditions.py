"""Compiles conditions of conditions, and the tests of one property (`consuming.md, SQL92 values`).

Every form becomes one closure over the closures of its operands, from the properties of a message to true, false or
None for "unknown". A text that is not the number that a literal requires raises EvaluationError, which ends the whole
evaluation; AND and OR go from left to right and stop at what decides them, as in RocketMQ, so later operands raise
nothing.
"""

import operator
from collections.abc import Callable, Sequence

from ternmq_common.sql_filter.operands import (
    TAG,
    Condition,
    Literal,
    Operand,
    Properties,
    Property,
    combined,
    constant,
    value_of,
)
from ternmq_common.sql_filter.refusal import IllegalExpression

_HAS_PART: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def condition(operand: Operand) -> Condition:
    """The operand where only a condition is allowed: a bare property is false if present, else unknown."""
    if isinstance(operand, Condition):
        return operand
    if isinstance(operand, Property):
        name = operand.name
        return combined(operand, evaluate=lambda properties: None if properties.get(name) is None else False)
    if isinstance(operand, Literal) and (operand.value is None or isinstance(operand.value, bool)):
        return constant(operand.value, operand)
    raise IllegalExpression(operand.position, "a condition is expected, such as a > 1, not a value alone")


def all_of(parts: Sequence[Condition]) -> Condition:
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
    return combined(*parts, evaluate=evaluate, tags=frozenset.intersection(*limits) if limits else None)


def any_of(parts: Sequence[Condition]) -> Condition:
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
    return combined(*parts, evaluate=evaluate, tags=frozenset().union(*limits) if len(limits) == len(parts) else None)


def negation(negated: Condition) -> Condition:
    """NOT: unknown stays unknown."""
    inner = negated.evaluate

    def evaluate(properties: Properties) -> bool | None:
        answer = inner(properties)
        return None if answer is None else not answer

    return combined(negated, evaluate=evaluate)


def is_null(operand: Operand, *, negated: bool) -> Condition:
    value = value_of(operand)
    # `a IS NULL IS NULL` nests to the left.
    deeper = int(isinstance(operand, Condition))
    return combined(operand, evaluate=lambda properties: (value(properties) is None) is not negated, deeper=deeper)


def is_in(operand: Operand, texts: frozenset[str], *, negated: bool) -> Condition:
    name = _property(operand, "IN").name

    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else (text in texts) is not negated

    return combined(operand, evaluate=evaluate, tags=texts if name == TAG and not negated else None)


def has_part(operand: Operand, where: str, part: str, *, negated: bool) -> Condition:
    """CONTAINS and the like. A missing property and an empty `part` are false, with a NOT before them too."""
    name = _property(operand, where).name
    has = _HAS_PART[where]
    if not part:
        return constant(False, operand)

    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return text is not None and has(text, part) is not negated

    return combined(operand, evaluate=evaluate)


def _property(operand: Operand, word: str) -> Property:
    if isinstance(operand, Property):
        return operand
    raise IllegalExpression(operand.position, f"{word} needs a property on its left")
