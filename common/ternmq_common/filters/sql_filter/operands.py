"""The operands of expressions; each knows where in the text it begins and how deep it nests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ternmq_common.filters.sql_filter.expression_errors import IllegalExpression
from ternmq_common.filters.sql_filter.values import NumberLiteral

# Evaluation nests about four calls a level, and must stay far below Python's limit of 1000.
NESTED_MAX = 64

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], bool | None]  # None is "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class _BaseOperand:
    position: int
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyOperand(_BaseOperand):
    """A property of the message, by its name; a text, or missing."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralOperand(_BaseOperand):
    """A value in the expression itself; None is NULL."""

    value: str | NumberLiteral | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownOperand(_BaseOperand):
    """A property with a minus before it: texts have no negative, so it has no value for any message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCondition(_BaseOperand):
    """A part that is true, false or unknown.

    Invariant: if `tags` is not None, `evaluate` is true only for messages with one of these tags.
    """

    evaluate: Evaluate
    names: frozenset[str] = frozenset()
    tags: frozenset[str] | None = None


Operand = PropertyOperand | LiteralOperand | UnknownOperand | CompiledCondition
TAG = "TAGS"  # the property whose hash the index keeps
AnyOperand = TypeVar("AnyOperand", bound=_BaseOperand)


def nest_operand(operand: AnyOperand, position: int) -> AnyOperand:
    """The operand one level deeper, in parentheses or after a sign at `position`."""
    _check_depth(operand.depth + 1, position)
    return replace(operand, position=position, depth=operand.depth + 1)


def combine_operands(
    first: Operand, *others: Operand, evaluate: Evaluate, tags: frozenset[str] | None = None, deeper: int = 0
) -> CompiledCondition:
    """A condition of the operands with this `evaluate`; it is `deeper` levels above the deepest of them."""
    operands = (first, *others)
    depth = max(operand.depth for operand in operands) + deeper
    _check_depth(depth, first.position)
    names = frozenset().union(*map(_property_names, operands))
    return CompiledCondition(position=first.position, depth=depth, evaluate=evaluate, names=names, tags=tags)


def constant_condition(verdict: bool | None, first: Operand, *others: Operand) -> CompiledCondition:
    """The operands as a condition that is the same for every message."""
    return combine_operands(first, *others, evaluate=lambda _: verdict)


def value_of(operand: Operand) -> Callable[[Properties], Any]:
    """A function that returns the operand's value for a message; None is missing, unknown or NULL."""
    match operand:
        case PropertyOperand(name=name):
            return lambda properties: properties.get(name)
        case LiteralOperand(value=value):
            return lambda _: value
        case CompiledCondition(evaluate=evaluate):
            return evaluate
        case UnknownOperand():
            return lambda _: None


def _property_names(operand: Operand) -> frozenset[str]:
    if isinstance(operand, CompiledCondition):
        return operand.names
    return frozenset({operand.name}) if isinstance(operand, PropertyOperand) else frozenset()


def _check_depth(depth: int, position: int) -> None:
    if depth > NESTED_MAX:
        raise IllegalExpression(position, f"it is nested more than {NESTED_MAX} levels deep")
