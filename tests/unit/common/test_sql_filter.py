"""SQL92 filters, rule by rule (`consuming.md, SQL92 grammar` and `consuming.md, SQL92 values`)."""

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ternmq_common.errors import MessagingError
from ternmq_common.filters.sql_filter import SqlFilter
from ternmq_common.filters.sql_filter.operands import NESTED_MAX
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.limits import SQL_FILTER_BYTES_MAX
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from ternmq_common.filters.message_filter import MessageFilter

Texts = dict[str, str]


def passes(expression: str, user: Texts | None = None, system: pb.SystemProperties | None = None) -> bool:
    rest = pb.Message(user_properties=user or {}, body=b"the body")
    return SqlFilter.parse_expression(expression).passes_message(
        (system or pb.SystemProperties()).SerializeToString(), rest.SerializeToString()
    )


def verdict(expression: str, user: Texts | None = None) -> bool | None:
    """True, false, or None for unknown: what lets neither a condition nor its opposite pass."""
    is_true, is_false = passes(expression, user), passes(f"NOT ({expression})", user)
    assert not (is_true and is_false)
    assert passes(f"({expression}) IS NULL", user) == (not is_true and not is_false)
    return True if is_true else False if is_false else None


def fails(expression: str, user: Texts) -> bool:
    """Whether the evaluation ends with an error: then nothing passes, not even a test for unknown."""
    return not any(passes(text.format(expression), user) for text in ("{}", "NOT ({})", "({}) IS NULL"))


def refusal(expression: str) -> str:
    """What a consumer reads about an expression that can't be used."""
    with pytest.raises(MessagingError) as refused:
        SqlFilter.parse_expression(expression)
    assert refused.value.code == pb.ILLEGAL_FILTER_EXPRESSION
    beginning = "the SQL92 expression can't be used: "
    assert refused.value.message.startswith(beginning)
    return refused.value.message.removeprefix(beginning)


# 2.6.1 the lexer


@pytest.mark.parametrize(
    "expression",
    [
        "NOT (a IS NULL) and a IS not Null",
        "a BETWEEN 1 AND 2",
        "a between 1 And 2",
        "a In ('1')",
        "a CONTAINS '1'",
        "a startswith '1'",
        "a EndsWith '1'",
        "a = 1 oR FALSE",
        "true",
        "True AND NOT false",
        "NULL IS NULL",
        "a=1AND a=1",
    ],
)
def test_keywords_are_taken_in_any_case(expression: str) -> None:
    assert passes(expression, {"a": "1"})


@pytest.mark.parametrize("name", ["a", "A", "_", "$", "a1", "_a$1", "android", "nothing", "is_", "in$", "BETWEEN1"])
def test_names_are_letters_digits_underscores_and_dollars(name: str) -> None:
    assert passes(f"{name} = 'x'", {name: "x"})


def test_names_are_case_sensitive() -> None:
    assert passes("Color = 'red' AND color IS NULL", {"Color": "red"})


@pytest.mark.parametrize(
    ("literal", "text"),
    [("''", ""), ("'it''s'", "it's"), ("''''", "'"), ("'--'", "--"), ("'/* */'", "/* */"), ("'a\nb'", "a\nb")],
)
def test_texts_stand_in_single_quotes_and_double_those_inside(literal: str, text: str) -> None:
    assert passes(f"a = {literal}", {"a": text})
    assert not passes(f"a = {literal}", {"a": text + "x"})


def test_texts_may_hold_any_character() -> None:
    assert passes("a = 'Füße 🦶'", {"a": "Füße 🦶"})


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        *[("0", "0"), ("0l", "0"), ("7", "7"), ("7L", "7"), ("2147483647", "2147483647")],
        *[("9223372036854775807", "9223372036854775807"), ("-5", "-5"), ("- 5", "-5"), ("+5", "5"), ("- -5", "5")],
        *[("1.5", "1.5"), (".5", "0.5"), ("1e3", "1000"), ("1.5E-3", "0.0015"), ("2.", "2"), ("-.5", "-0.5")],
        *[("00.5", "0.5"), ("1e+3", "1000.0")],
    ],
)
def test_numbers_may_be_written_as(literal: str, text: str) -> None:
    assert passes(f"a = {literal}", {"a": text})
    assert not passes(f"a <> {literal}", {"a": text})


@pytest.mark.parametrize(
    "expression",
    [
        " \t\r\n\fa=1\n",
        "a -- the amount\n= 1",
        "a = 1 -- to the end",
        "a = 1 --",
        "/* first */ a /**/ = /* * / -- ** */ 1 /***/",
        "a/* two\nlines */=--\r1",
    ],
)
def test_comments_and_white_space_stand_anywhere(expression: str) -> None:
    assert passes(expression, {"a": "1"})
    assert not passes(expression, {"a": "2"})


# 2.6.2 the grammar

TRUTHS = {"t": "1", "f": "0"}
TRUE, FALSE, UNKNOWN = "t = 1", "f = 1", "u = 1"


@pytest.mark.parametrize(
    ("weak", "strong"),
    [
        ("TRUE OR FALSE AND FALSE", "TRUE OR (FALSE AND FALSE)"),
        ("FALSE AND FALSE OR TRUE", "(FALSE AND FALSE) OR TRUE"),
        ("NOT FALSE AND FALSE", "(NOT FALSE) AND FALSE"),
        ("NOT TRUE OR TRUE", "(NOT TRUE) OR TRUE"),
        ("a = 1 AND f = 1", "(a = 1) AND (f = 1)"),
        ("NOT a = TRUE", "(NOT a) = TRUE"),
        ("NOT a IS NULL", "(NOT a) IS NULL"),
        ("a > 0 = TRUE", "(a > 0) = TRUE"),
        ("a = 1 = TRUE", "(a = 1) = TRUE"),
        ("a = 1 IS NULL", "(a = 1) IS NULL"),
        ("u = 1 IS NULL IS NULL", "((u = 1) IS NULL) IS NULL"),
        ("a BETWEEN 0 AND 1 AND f = 1", "(a BETWEEN 0 AND 1) AND (f = 1)"),
        ("a BETWEEN -1 AND - -1 OR f = 1", "(a BETWEEN (-1) AND (- (-1))) OR (f = 1)"),
    ],
)
def test_operators_bind_as_their_levels_say(weak: str, strong: str) -> None:
    user = {"a": "1", **TRUTHS}
    assert verdict(weak, user) == verdict(strong, user)


@pytest.mark.parametrize(
    "expression", ["'abc'", "1", "1.5", "-1", "-a", "('abc')", "+1", "1 AND a", "NOT 'x'", "NOT -a"]
)
def test_the_whole_expression_must_be_a_condition(expression: str) -> None:
    assert "a condition is expected" in refusal(expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        *[("1 = 1", True), ("1 = 2", False), ("1 = 1.0", True), ("1 <> 1L", False), ("'a' = 'a'", True)],
        *[("'a' <> 'a'", False), ("'1' = 1", True), ("1 = '01'", True), ("NULL IS NULL", True), ("1 IS NULL", False)],
        *[("'x' IS NOT NULL", True), ("TRUE = TRUE", True), ("TRUE <> FALSE", True), ("2 > 1.5", True)],
        *[("5 BETWEEN 1 AND 10", True), ("5 NOT BETWEEN 1 AND 10", False), ("TRUE", True), ("FALSE", False)],
        *[("NULL", None), ("NULL IS NOT NULL", False), ("FALSE IS NULL", False)],
    ],
)
def test_literals_can_be_compared_with_each_other(expression: str, expected: bool | None) -> None:
    assert verdict(expression) is expected


@pytest.mark.parametrize("text", ["true", "TRUE", "1", "", "false"])
def test_a_bare_property_is_false_if_it_is_present_whatever_it_says(text: str) -> None:
    assert verdict("a", {"a": text}) is False
    assert verdict("+(a)", {"a": text}) is False
    assert passes("NOT a", {"a": text})


def test_a_bare_property_is_unknown_if_it_is_missing() -> None:
    assert verdict("a") is None
    assert not passes("NOT a")


def test_not_takes_the_nearest_operand() -> None:
    assert passes("NOT (a > 1)", {"a": "1"})
    assert "NOT needs parentheses" in refusal("NOT a > 1")
    # (NOT b) = 2 compares a condition with a number, which is never equal; it is unknown where b is missing.
    assert verdict("NOT b = 2", {"b": "2"}) is False
    assert verdict("NOT b <> 2", {"b": "2"}) is True
    assert verdict("NOT b = 2") is None


@pytest.mark.parametrize(
    "expression",
    ["-a = 1", "-a = 'x'", "- -a <> 1", "-a > 1", "1 <= -a", "-a BETWEEN 1 AND 2", "b > -a", "-(+a) = TRUE"],
)
def test_the_negative_of_a_property_is_unknown(expression: str) -> None:
    assert verdict(expression, {"a": "1", "b": "1"}) is None
    assert passes("-a IS NULL", {"a": "1"})


@pytest.mark.parametrize("expression", ["a = TRUE", "a <> FALSE", "(a = 'x') = FALSE", "-a = TRUE OR TRUE"])
def test_true_and_false_stand_on_the_right_of_what_the_message_decides(expression: str) -> None:
    assert passes(expression, {"a": "TRUE"})


REFUSED = [
    # The lexer.
    ("a == 1", 3, "'==' is not an operator; compare with ="),
    ("a=='x'", 2, "'==' is not an operator; compare with ="),
    ("a != 1", 3, "'!=' is not an operator; write <>"),
    ("a => 1", 3, "'=>' is not an operator; write >="),
    ("a =< 1", 3, "'=<' is not an operator; write <="),
    ("!a", 1, "'!' is not an operator; write NOT"),
    ("a && b", 3, "'&' is not an operator; write AND"),
    ("a || b", 3, "'|' is not an operator; write OR"),
    ('a = "x"', 5, "texts stand in single quotes"),
    ("a LIKE 'x%'", 3, "there is no LIKE; use CONTAINS, STARTSWITH or ENDSWITH"),
    ("a not like 'x%'", 7, "there is no LIKE; use CONTAINS, STARTSWITH or ENDSWITH"),
    ("a = 'x' ESCAPE 'y'", 9, "there is no LIKE"),
    ("a + 1 > 2", 3, "there is no arithmetic"),
    ("a * 2 = 4", 3, "there is no arithmetic"),
    ("a = 4 / 2", 7, "there is no arithmetic"),
    ("a = 1 - 1", 7, "there is no arithmetic"),
    ("a-b = 1", 2, "a name has no hyphen"),
    ("a.b = 1", 2, "a name has no dot"),
    ("a.5 = 1", 2, "a name has no dot"),
    ("lower(a) = 'x'", 6, "there are no functions"),
    ("a = 0x10", 6, "'x10' where an operator, AND, OR or the end is expected"),
    ("a = 'x", 5, "the text is not closed"),
    ("a = 'it's'", 9, "'s' where an operator"),
    ("a = 1 /* x", 7, "the comment is not closed"),
    ("a = 1;", 6, "a ';' is not needed"),
    (r"a = 'it\'s'", 10, "'s' where an operator"),
    ("größe = 1", 3, "'ö' means nothing outside of a text"),
    ("\u212a = 1", 1, "means nothing outside of a text"),
    ("a \u0131s null", 3, "means nothing outside of a text"),
    ("a\u00a0= 1", 2, "means nothing outside of a text"),
    ("a = \uff11", 5, "means nothing outside of a text"),
    ("#", 1, "'#' means nothing outside of a text"),
    ("a = 01", 5, "an integer has no leading zero"),
    ("a = 00", 5, "an integer has no leading zero"),
    ("a = 0.0", 5, "the fraction is 0"),
    ("a = 0e7", 5, "the fraction is 0"),
    ("a = 1e-999", 5, "the fraction is 0"),
    ("a = 1e999", 5, "larger than a double can be"),
    ("a = 9223372036854775808", 5, "the integer is larger than 9223372036854775807"),
    ("a = -9223372036854775808", 6, "the integer is larger than 9223372036854775807"),
    ("a = " + "9" * 5000, 5, "the integer is larger than 9223372036854775807"),
    # What stands where it can't; the text must be an expression up to its end.
    ("a = 1 foo", 7, "'foo' where an operator, AND, OR or the end is expected"),
    ("a = 1)", 6, "')' where AND, OR or the end is expected"),
    ("(a = 1", None, "')' is missing"),
    ("a =", None, "a property or a value is missing"),
    ("a AND", None, "a property or a value is missing"),
    ("-- nothing", None, "a property or a value is missing"),
    ("AND a", 1, "'AND' where a property or a value is expected"),
    ("in = 1", 1, "'in' where a property or a value is expected"),
    ("a = 1 OR OR b", 10, "'OR' where a property or a value is expected"),
    ("a IS 1", 6, "'1' where NULL or NOT is expected"),
    ("a IS NOT", None, "NULL is missing"),
    ("a NOT = 1", 7, "'=' where BETWEEN, CONTAINS, STARTSWITH, ENDSWITH or IN is expected"),
    ("a IN 'x'", 6, "\"'x'\" where '(' is expected"),
    ("a IN ()", 7, "')' where a text in single quotes is expected"),
    ("a IN (1)", 7, "'1' where a text in single quotes is expected"),
    ("a IN (b)", 7, "'b' where a text in single quotes is expected"),
    ("a IN ('x',)", 11, "')' where a text in single quotes is expected"),
    ("a IN ('x' 'y')", 11, "\"'y'\" where ')' or ',' is expected"),
    ("a IN (('x'))", 7, "'(' where a text in single quotes is expected"),
    ("a CONTAINS b", 12, "'b' where a text in single quotes is expected"),
    ("a ENDSWITH ('x')", 12, "'(' where a text in single quotes is expected"),
    ("a BETWEEN 1", None, "AND is missing"),
    ("a BETWEEN 1, 2", 12, "',' where AND is expected"),
    ("a > 1 > 2", 7, "'>' where AND, OR or the end is expected"),
    ("a < > 1", 5, "'>' where a property or a value is expected"),
    ("a =\n\n= 1", 6, "'=' where a property or a value is expected"),
    # Operands of the wrong kind.
    ("a > 'x'", 5, "> compares numbers only"),
    ("'x' <= a", 1, "<= compares numbers only"),
    ("a < TRUE", 5, "< compares numbers only"),
    ("FALSE >= a", 1, ">= compares numbers only"),
    ("a > NULL", 5, "> compares numbers only"),
    ("a > (b = 1)", 5, "> can't compare a condition"),
    ("a = NULL", 5, "NULL can't be compared; write IS NULL"),
    ("a <> null", 6, "NULL can't be compared; write IS NOT NULL"),
    ("NULL = a", 1, "NULL can't be compared"),
    ("TRUE = a", 1, "TRUE and FALSE stand on the right of a property"),
    ("FALSE <> 1", 1, "TRUE and FALSE stand on the right of a property"),
    ("1 = TRUE", 5, "TRUE and FALSE can't be compared with a number or a text"),
    ("a BETWEEN 'x' AND 'y'", 11, "BETWEEN compares numbers only"),
    ("a BETWEEN 1 AND 'y'", 17, "BETWEEN compares numbers only"),
    ("a BETWEEN NULL AND 1", 11, "BETWEEN compares numbers only"),
    ("'x' BETWEEN 1 AND 2", 1, "BETWEEN compares numbers only"),
    ("NOT a BETWEEN 1 AND 2", 1, "BETWEEN can't compare a condition"),
    ("a BETWEEN 2 AND 1", 11, "BETWEEN needs the lower number first"),
    ("a NOT BETWEEN 2 AND 1.5", 15, "BETWEEN needs the lower number first"),
    ("a BETWEEN 1 AND -1", 11, "BETWEEN needs the lower number first"),
    ("'x' IN ('x')", 1, "IN needs a property on its left"),
    ("1 NOT IN ('x')", 1, "IN needs a property on its left"),
    ("-a IN ('x')", 1, "IN needs a property on its left"),
    ("'x' CONTAINS 'x'", 1, "CONTAINS needs a property on its left"),
    ("NOT a STARTSWITH 'x'", 1, "STARTSWITH needs a property on its left"),
    ("(a = 1) endswith 'x'", 1, "ENDSWITH needs a property on its left"),
    ("-'x' = 'y'", 1, "a minus is allowed before a number only"),
    ("-TRUE", 1, "a minus is allowed before a number only"),
    ("a = -(b = 1)", 5, "a minus is allowed before a number only"),
]


@pytest.mark.parametrize(("expression", "character", "reason"), REFUSED)
def test_a_text_that_is_no_expression_is_refused_with_place_and_reason(
    expression: str, character: int | None, reason: str
) -> None:
    place, _, told = refusal(expression).partition(": ")
    assert place == ("at its end" if character is None else f"at character {character}")
    assert reason in told


@pytest.mark.parametrize("expression", ["", " ", "\n\t"])
def test_an_empty_expression_is_refused(expression: str) -> None:
    assert "empty" in refusal(expression)


def test_an_expression_has_a_limit_in_bytes() -> None:
    longest = "a = '" + "ä" * ((SQL_FILTER_BYTES_MAX - 6) // 2) + "'"
    assert len(longest.encode()) == SQL_FILTER_BYTES_MAX
    assert passes(longest, {"a": longest[5:-1]})
    assert refusal(longest + " ") == f"it is longer than {SQL_FILTER_BYTES_MAX} bytes"


@pytest.mark.parametrize("word", [" AND ", " OR "])
def test_a_chain_may_be_as_long_as_an_expression(word: str) -> None:
    chain = word.join(["a=1"] * (SQL_FILTER_BYTES_MAX // len(f"a=1{word}")))
    assert passes(chain, {"a": "1"})
    assert not passes(chain, {"a": "2"})


TOWERS = [
    ("(", "a = 1", ")", ""),
    ("((", "a", ") <> 1)", ""),
    ("NOT ", "b", "", ""),
    ("NOT (a = 1 AND ", "b", ")", ""),
    ("+", "a", "", " = 1"),
    ("- ", "1", "", " = a"),
    ("(b = 2 OR a = 1 AND ", "a = 1", " = TRUE)", ""),
    ("", "a = 1", " = TRUE", ""),
    ("", "a", " IS NULL", ""),
]


@pytest.mark.parametrize(("opening", "core", "closing", "rest"), TOWERS)
def test_a_tower_is_evaluated_up_to_a_height_and_refused_above(
    opening: str, core: str, closing: str, rest: str
) -> None:
    def tower(height: int) -> str:
        return opening * height + core + closing * height + rest

    for height in range(1, NESTED_MAX // 3):
        passes(tower(height), {"a": "1", "b": "1"})
    highest = (SQL_FILTER_BYTES_MAX - len(core + rest)) // len(opening + closing)
    for height in (NESTED_MAX + 2, highest):
        assert f"it is nested more than {NESTED_MAX} levels deep" in refusal(tower(height))


@pytest.mark.parametrize(
    "tower", ["(" * 8000, "NOT " * 2000, "- " * 4000, "(" * 4000 + "a" + ")" * 4000, "a" + ")" * 8000]
)
def test_a_tower_without_end_is_refused(tower: str) -> None:
    assert refusal(tower)


# 2.6.3 values and evaluation


@pytest.mark.parametrize(
    ("name", "text"), [("TAGS", "red"), ("KEYS", "k1 k2"), ("UNIQ_KEY", "0A"), ("__SHARDINGKEY", "orders of 7")]
)
def test_system_properties_go_by_their_stored_names(name: str, text: str) -> None:
    system = pb.SystemProperties(tag="red", keys=["k1", "k2"], message_id="0A", message_group="orders of 7")
    assert passes(f"{name} = '{text}'", {"a": "1"}, system)
    assert passes(f"{name} = '{text}' AND a = 1", {"a": "1"}, system)
    assert passes(f"{name} IS NULL")
    empty = pb.SystemProperties(tag="", keys=[], message_id="", message_group="")
    assert passes(f"{name} IS NULL AND a = 1", {"a": "1"}, empty)


def test_a_user_property_never_stands_in_for_a_system_property() -> None:
    system = pb.SystemProperties(message_group="system")
    assert passes("TAGS IS NULL AND KEYS IS NULL AND UNIQ_KEY IS NULL", {"TAGS": "x", "KEYS": "x", "UNIQ_KEY": "x"})
    assert passes("__SHARDINGKEY = 'system'", {"__SHARDINGKEY": "user"}, system)
    # Producers may set this one.
    assert passes("__SHARDINGKEY = 'user'", {"__SHARDINGKEY": "user"})


@pytest.mark.parametrize(
    ("expression", "text", "expected"),
    [
        # A text with a text.
        *[("a = 'x'", "x", True), ("a = 'x'", "X", False), ("a <> 'x'", "X", True), ("a = '1'", "01", False)],
        *[("'x' = a", "x", True), ("'x' <> a", "x", False), ("a = ''", "", True)],
        # A text with an integer.
        *[("a = 1", text, True) for text in ("1", "01", "+1", "0" * 6000 + "1")],
        *[("a = -1", "-1", True), ("a = 0", "-0", True), ("1 = a", "01", True), ("a <> 1", "2", True)],
        *[("a > 1", "2", True), ("a > 1", "1", False), ("a >= 1", "1", True), ("a < 1", "0", True)],
        *[("a <= 1", "2", False), ("a < 10", "9", True)],
        *[("1 < a", text, text > "1") for text in "012"],
        *[("1 <= a", text, text >= "1") for text in "012"],
        *[("1 > a", text, text < "1") for text in "012"],
        *[("1 >= a", text, text <= "1") for text in "012"],
        *[("a = -2147483648", "-2147483648", True), ("a > 1L", "3000000000", True)],
        *[("a < 2147483648", "2147483647", True), ("a > 2147483647L", "9223372036854775807", True)],
        # A text with a fraction.
        *[("a = 1.5", text, True) for text in ("1.5", "+1.50", " 1.5 ", "15e-1", "1.5d", "1.5F", ".15E+1", "\t1.5")],
        *[("a > 1.5", "2", True), ("a > 1.5", "2.", True), ("a > 1.5", "1e999", True), ("a > 1.5", "Infinity", True)],
        *[("a < 1.5", "-Infinity", True), ("a > 1.5", "NaN", True), ("a < 1.5", "NaN", False), ("a = 1e0", "1", True)],
        # A text with TRUE or FALSE.
        *[("a = TRUE", text, True) for text in ("true", "TRUE", "tRuE")],
        *[("a = TRUE", text, False) for text in ("false", "1", "", " true", "yes")],
        *[("a = FALSE", text, True) for text in ("false", "1", "", "yes")],
        *[("a <> TRUE", "x", True), ("a <> FALSE", "x", False)],
        # BETWEEN, IN and parts of texts.
        *[("a BETWEEN 1 AND 3", text, True) for text in ("1", "2", "3")],
        *[("a BETWEEN 1 AND 3", text, False) for text in ("0", "4")],
        *[
            ("a NOT BETWEEN 1 AND 3", "4", True),
            ("a NOT BETWEEN 1 AND 3", "3", False),
            ("a BETWEEN 1 AND 1", "1", True),
        ],
        *[("a BETWEEN 1 AND 2.5", "2", True), ("a IN ('x', 'y')", "y", True), ("a IN ('x', 'y')", "Y", False)],
        *[("a NOT IN ('x')", "y", True), ("a NOT IN ('x')", "x", False), ("a IN ('')", "", True)],
        *[("a CONTAINS 'bc'", "abcd", True), ("a CONTAINS 'BC'", "abcd", False), ("a NOT CONTAINS 'x'", "abcd", True)],
        *[("a STARTSWITH 'ab'", "abcd", True), ("a STARTSWITH 'b'", "abcd", False)],
        *[("a NOT STARTSWITH 'b'", "abcd", True), ("a ENDSWITH 'cd'", "abcd", True), ("a ENDSWITH 'c'", "abcd", False)],
        *[
            ("a NOT ENDSWITH 'c'", "abcd", True),
            ("a CONTAINS 'it''s'", "it's", True),
            ("a NOT CONTAINS 'b'", "abc", False),
        ],
        *[
            (f"a {negated}{word} ''", "x", False)
            for negated in ("", "NOT ")
            for word in ("CONTAINS", "STARTSWITH", "ENDSWITH")
        ],
        # Presence.
        *[("a IS NULL", "", False), ("a IS NOT NULL", "", True), ("(a = 'x') IS NOT NULL", "y", True)],
        # Conditions as operands.
        *[("(a = 1) = TRUE", "1", True), ("(a = 1) = (a > 0)", "1", True), ("(a = 1) <> (a > 1)", "1", True)],
        *[("a = (a = 1)", "1", False), ("1 = (a = 1)", "1", False), ("(a = 1) = 1", "1", False)],
    ],
)
def test_a_property_that_is_present(expression: str, text: str, expected: bool) -> None:
    assert verdict(expression, {"a": text}) is expected


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        *[
            (f"a {sign} 1", text)
            for sign in ("=", ">")
            for text in ("2.5", "x", " 2", "", "3000000000", "1 ", "+", "--1")
        ],
        *[("a = 1", text) for text in ("1_0", "\u0661", "1L", "0x1", "-2147483649", "2147483648", "\uff11")],
        *[("1 < a", "x"), ("a <> 1", "x"), ("a BETWEEN 1 AND 2", "x"), ("a NOT BETWEEN 1 AND 2", "x")],
        *[("a = 1L", text) for text in ("x", "1.0", "9223372036854775808", "9" * 5000)],
        *[("a > 2147483648", "-9223372036854775809"), ("1 = 'x'", ""), ("'x' <> 1", "")],
        *[
            ("a > 1.5", text)
            for text in ("", "x", "1_0.5", "nan", "inf", "infinity", "0x1p3", "1e", ".", "1.5dd", "1,5")
        ],
        *[("a > 1.5", "\u0661.5"), ("a > 1.5", "1.5\u00a0"), ("a > 1.5", "1" * 16000 + "x"), ("(a = 'x') = 'x'", "x")],
        *[("(a = 'x') = a", "x"), ("a > b", "x"), ("b < a", "x"), ("b BETWEEN a AND 5", "x")],
    ],
)
def test_a_text_that_is_not_the_number_asked_for_is_an_error(expression: str, text: str) -> None:
    assert fails(expression, {"a": text, "b": "2"})


def test_an_error_ends_the_whole_evaluation_unless_it_is_decided_before() -> None:
    user = {"a": "x", "b": "1"}
    assert fails("a = 1 OR b = 1", user)
    assert passes("b = 1 OR a = 1", user)
    assert fails("a = 1 AND b = 2", user)
    assert passes("NOT (b = 2 AND a = 1)", user)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        *[("m = 'x'", None), ("m <> 'x'", None), ("m = 1", None), ("m <> 1", None), ("m = TRUE", None)],
        *[("m < 1", None), ("m > 1.5", None), ("1 < m", None), ("m BETWEEN 1 AND 2", None)],
        *[("m NOT BETWEEN 1 AND 2", None), ("m IN ('x')", None), ("m NOT IN ('x')", None)],
        *[("m CONTAINS 'x'", False), ("m NOT CONTAINS 'x'", False), ("m STARTSWITH 'x'", False)],
        *[("m NOT STARTSWITH 'x'", False), ("m ENDSWITH 'x'", False), ("m NOT ENDSWITH 'x'", False)],
        *[("m IS NULL", True), ("m IS NOT NULL", False), ("1 = m", False), ("'x' <> m", True)],
        # Two properties, of which m and n are missing.
        *[("m = a", None), ("m <> a", None), ("a = m", False), ("a <> m", True), ("m = n", True), ("m <> n", False)],
        *[
            ("m < a", None),
            ("a < m", None),
            ("m >= n", None),
            ("a BETWEEN m AND 9", None),
            ("a BETWEEN m AND 1", False),
        ],
        *[("5 BETWEEN m AND 9", None), ("5 BETWEEN 1 AND m", None)],
    ],
)
def test_a_property_that_is_missing(expression: str, expected: bool | None) -> None:
    assert verdict(expression, {"a": "5"}) is expected


@pytest.mark.parametrize(
    ("expression", "left", "right", "expected"),
    [
        *[
            ("a = b", "1", "1", True),
            ("a = b", "1", "1.0", False),
            ("a <> b", "1", "1.0", True),
            ("a <> b", "x", "x", False),
        ],
        *[
            ("a < b", "9", "10", True),
            ("a >= b", "1", "1.0", True),
            ("a <= b", "1", "1.0", True),
            ("a > b", "1e1", "9", True),
        ],
        *[("a > b", "NaN", "Infinity", True), ("a >= b", "NaN", "NaN", True), ("a < b", "-0.0", "0", True)],
        *[
            ("a BETWEEN b AND b", "1", "1.0", True),
            ("a NOT BETWEEN b AND b", "1", "2", True),
            ("3 BETWEEN a AND b", "2", "4", True),
        ],
    ],
)
def test_two_properties(expression: str, left: str, right: str, expected: bool) -> None:
    assert verdict(expression, {"a": left, "b": right}) is expected


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (TRUE, TRUE, True, True),
        (TRUE, FALSE, False, True),
        (TRUE, UNKNOWN, None, True),
        (FALSE, FALSE, False, False),
        (FALSE, UNKNOWN, False, None),
        (UNKNOWN, UNKNOWN, None, None),
    ],
)
def test_logic_has_three_values(left: str, right: str, both: bool | None, either: bool | None) -> None:
    for one, other in ((left, right), (right, left)):
        assert verdict(f"{one} AND {other}", TRUTHS) is both
        assert verdict(f"{one} OR {other}", TRUTHS) is either
        assert verdict(f"{one} AND {other} AND {TRUE}", TRUTHS) is both
        assert verdict(f"{FALSE} OR {one} OR {other}", TRUTHS) is either


# What the broker sees of a filter


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("TAGS = 'x'", {"x"}),
        ("'x' = TAGS", {"x"}),
        ("TAGS IN ('x', 'y') AND a = 1", {"x", "y"}),
        ("a = 1 AND (TAGS IN ('x', 'y') AND TAGS IN ('y', 'z'))", {"y"}),
        ("TAGS = 'x' AND TAGS = 'y'", set()),
        ("(TAGS = 'x' AND a = 1) OR TAGS = 'y'", {"x", "y"}),
        ("TAGS = 'x' OR a = 1", None),
        ("NOT (TAGS = 'x')", None),
        ("TAGS <> 'x'", None),
        ("TAGS NOT IN ('x')", None),
        ("TAGS = a", None),
        ("TAGS = 1", None),
        ("TAGS IS NULL", None),
        ("(TAGS = 'x') = FALSE", None),
        ("(TAGS = 'x') IS NULL", None),
        ("a = 'x'", None),
    ],
)
def test_only_tags_that_can_pass_get_past_the_index(expression: str, tags: set[str] | None) -> None:
    for tag in ("x", "y", "z", "other", ""):
        assert SqlFilter.parse_expression(expression).may_pass(tag_hash(tag)) == (tags is None or tag in tags)


def test_a_filter_is_a_message_filter_that_keeps_its_text() -> None:
    text = "a = 1 -- once"
    one: MessageFilter = SqlFilter.parse_expression(text)
    assert one.expression == text
    assert not one.takes_all
    assert one == SqlFilter.parse_expression(text)
    assert one != SqlFilter.parse_expression("a = 1")


@pytest.mark.slow
def test_the_parser_library_waits_for_the_first_filter() -> None:
    program = (
        "import sys; from ternmq_common.filters.sql_filter import SqlFilter; assert 'lark' not in sys.modules;"
        "SqlFilter.parse_expression('a = 1'); assert 'lark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
