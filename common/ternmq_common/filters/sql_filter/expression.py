"""One SQL92 expression, compiled for stored messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.message_filter import MessageFilter
from ternmq_common.filters.sql_filter.expression_errors import IllegalExpression
from ternmq_common.filters.sql_filter.stored_properties import (
    SYSTEM_PROPERTIES,
    SYSTEM_PROPERTIES_ONLY,
    system_properties,
    user_properties,
)
from ternmq_common.filters.sql_filter.values import EvaluationError
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.limits import SQL_FILTER_BYTES_MAX

if TYPE_CHECKING:
    from ternmq_common.filters.sql_filter.operands import Evaluate


@dataclass(frozen=True, slots=True)
class SqlFilter(MessageFilter):
    """Lets a message pass when the expression is true for its properties, not when it is false, unknown or an error.

    A `MessageFilter`. Invariant: a message that passes has a tag whose hash is among `hashes`, if those are not None.
    """

    expression: str
    hashes: frozenset[int] | None
    _user_names: frozenset[str] = field(repr=False, compare=False)
    _system_names: frozenset[str] = field(repr=False, compare=False)
    _evaluate: "Evaluate" = field(repr=False, compare=False)

    @classmethod
    def parse_expression(cls, expression: str) -> "SqlFilter":
        """Compile an expression; ILLEGAL_FILTER_EXPRESSION if it is invalid, too long or nested too deep."""
        return _compile_expression(expression)

    @property
    def takes_all(self) -> bool:
        """Always False: the expression is evaluated for every message, even if it is `TRUE`."""
        return False

    def may_pass(self, hash_of_tag: int) -> bool:
        """Whether a message with that tag hash may pass; `passes_message` finds collisions."""
        return self.hashes is None or hash_of_tag in self.hashes

    def passes_message(self, system: bytes, rest: bytes) -> bool:
        """Whether the stored message matches: its serialized `SystemProperties`, and the rest of the `Message`."""
        try:
            return self._evaluate(self._needed_properties(system, rest)) is True
        except EvaluationError:
            return False

    def _needed_properties(self, system: bytes, rest: bytes) -> Mapping[str, str]:
        """The properties that the expression names, and perhaps others; unneeded parts are not decoded."""
        user: Mapping[str, str] = user_properties(rest) if self._user_names else {}
        if not self._system_names:
            return user
        named = {name: user[name] for name in self._user_names if name in user}
        return named | system_properties(system, self._system_names)


def _compile_expression(expression: str) -> SqlFilter:
    _check_size(expression)
    # Imported here: every start would wait for the parser library otherwise, though few consumers use SQL92.
    from ternmq_common.filters.sql_filter.parser import parse_expression

    try:
        condition = parse_expression(expression)
    except IllegalExpression as refusal:
        raise _expression_error(f"{_describe_position(refusal.position, expression)}: {refusal.reason}") from None
    return SqlFilter(
        expression,
        None if condition.tags is None else frozenset(map(tag_hash, condition.tags)),
        condition.names - SYSTEM_PROPERTIES_ONLY,
        condition.names & SYSTEM_PROPERTIES.keys(),
        condition.evaluate,
    )


def _check_size(expression: str) -> None:
    if not expression.strip():
        raise _expression_error("it is empty; write a condition, TRUE for all messages")
    if len(expression.encode()) > SQL_FILTER_BYTES_MAX:
        raise _expression_error(f"it is longer than {SQL_FILTER_BYTES_MAX} bytes")


def _describe_position(position: int, expression: str) -> str:
    return f"at character {position + 1}" if position < len(expression) else "at its end"


def _expression_error(reason: str) -> MessagingError:
    return MessagingError(ErrorCode.ILLEGAL_FILTER_EXPRESSION, f"the SQL92 expression can't be used: {reason}")
