"""Errors for texts that are no valid expression: what is wrong, and what to write instead."""

import re
from collections.abc import Set as AbstractSet

END = "$END"  # the parser library's name for the end of the text

_TERMINALS = {
    "_AND": "AND",
    "NULL": "NULL",
    "NOT": "NOT",
    "_BETWEEN": "BETWEEN",
    "PART": "CONTAINS, STARTSWITH, ENDSWITH",
    "_IN": "IN",
    "OPEN": "'('",
    "_CLOSE": "')'",
    "_COMMA": "','",
    "TEXT": "a text in single quotes",
}
_OPERAND = "a property or a value"

# Mistakes by the text where the parser stopped; the first one that fits is reported.
_ANYWHERE = (
    (r"==", "'==' is not an operator; compare with ="),
    (r"=<", "'=<' is not an operator; write <="),
    (r"=>", "'=>' is not an operator; write >="),
    (r"!=", "'!=' is not an operator; write <>"),
    (r"!", "'!' is not an operator; write NOT"),
    (r"&&?", "'&' is not an operator; write AND"),
    (r"\|\|?", "'|' is not an operator; write OR"),
    (r'["`]', "texts stand in single quotes, names of properties in none"),
    (r"[*/%]", "there is no arithmetic; let the producer calculate"),
    (r"\.", "a name has no dot; it is made of letters, digits, _ and $"),
    (r"\\", "there is no escaping; a quote inside a text is written twice"),
    (r";", "a ';' is not needed; leave it out"),
)
_NO_TERMINAL = (
    (r"'", "the text is not closed; a quote inside of it is written twice"),
    (r"/\*", "the comment is not closed; it ends with */"),
)
_AFTER_AN_OPERAND = (
    (r"(?i:[ri]?like|regexp|escape)\b", "there is no LIKE; use CONTAINS, STARTSWITH or ENDSWITH"),
    (r"[+-]", "there is no arithmetic, and a name has no hyphen"),
    (r"\(", "there are no functions"),
)


class IllegalExpression(Exception):
    """The expression is invalid; `position` counts characters from 0, up to the end of the text."""

    def __init__(self, position: int, reason: str) -> None:
        self.position, self.reason = position, reason
        super().__init__(f"at {position}: {reason}")


def misplaced_token(expression: str, position: int, expected: AbstractSet[str]) -> IllegalExpression:
    """The error for a token at `position`, or the end of the text, that is not allowed there.

    `expected` names the allowed terminals; if empty, only the end is.
    """
    wanted = _describe_expected(expected)
    if position >= len(expression):
        return IllegalExpression(position, f"{wanted} is missing")
    after_an_operand = not expected or "_OR" in expected or "_BETWEEN" in expected
    hints = _AFTER_AN_OPERAND + _ANYWHERE if after_an_operand else _ANYWHERE
    return IllegalExpression(
        position,
        _find_hint(hints, expression, position) or f"{_piece_at(expression, position)!r} where {wanted} is expected",
    )


def unreadable_text(expression: str, position: int) -> IllegalExpression:
    """The error for a text at `position` where no terminal begins."""
    hint = _find_hint(_NO_TERMINAL + _ANYWHERE, expression, position)
    return IllegalExpression(position, hint or f"{expression[position]!r} means nothing outside of a text")


def _find_hint(hints: tuple[tuple[str, str], ...], expression: str, position: int) -> str | None:
    return next((hint for pattern, hint in hints if re.compile(pattern).match(expression, position)), None)


def _describe_expected(expected: AbstractSet[str]) -> str:
    if "NAME" in expected:
        return _OPERAND
    if "_OR" in expected or not expected:
        end = "')'" if "_CLOSE" in expected else "the end"
        return f"{'an operator, ' if 'ORDER' in expected else ''}AND, OR or {end}"
    *first, last = [name for terminal, name in _TERMINALS.items() if terminal in expected]
    return f"{', '.join(first)} or {last}" if first else last


def _piece_at(expression: str, position: int) -> str:
    """The word or sign at `position`, cut if it is long."""
    match = re.compile(r"[\w$]{1,30}|'[^']{0,30}'?|<>|[<>]=|.", re.DOTALL).match(expression, position)
    assert match is not None
    return match[0]
