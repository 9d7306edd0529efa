"""Random SQL92 filters against a plainer reading of the rules, and random texts, which must do no harm."""

import random
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ternmq_common.errors import MessagingError
from ternmq_common.filters.sql_filter import SqlFilter
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.common.sql_trees import (
    Between,
    Constant,
    Equal,
    In,
    IsNull,
    Logic,
    Minus,
    Not,
    Number,
    Order,
    Part,
    Property,
    Text,
    Texts,
    Tree,
    Typist,
    Undecidable,
    compared,
    truth,
)

TEXTS = [
    *["", "x", "X", "xy", "it's", "true", "FALSE", "--", "eu"],
    *["0", "-0", "1", "01", "+1", "-1", "2", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808"],
    *["1.0", "1.5", " 1.5 ", "2.", ".5", "1e0", "15e-1d", "-0.0", "NaN", "-Infinity", "1e999", "1_0", "\u0661", "1e"],
]
NUMBERS = [
    *["1", "1", "1L", "1.5", "1.0"],
    *["0", "1", "-1", "2", "2147483647", "2147483648", "-2147483648", "9223372036854775807"],
    *["0L", "1l", "-1L", "7L", ".5", "1.5", "-1.5", "1.", "1e0", "1E3", "15e-1", "2147483648.5"],
]
FRAGMENTS = [
    *["a", "TAGS", "AND", "or", "NOT", "BETWEEN", "in", "IS", "null", "TRUE", "contains", "1", "0.5", "1e999", "'x'"],
    *["'", "(", ")", ",", "=", "<>", "<", ">=", "==", "!=", "+", "-", "--", "/*", "*/", ".", '"', "LIKE", "\n", "ä"],
]

names = st.sampled_from(["a", "b", "_c$1", "TAGS", "KEYS"])
texts = st.sampled_from(["1", "x", "1.5"]) | st.sampled_from(TEXTS) | st.text(st.characters(codec="utf-8"), max_size=3)
# Few numbers, each often, so that comparisons go either way; then all that is hard to read.
message_texts = st.sampled_from(["0", "1", "1", "2", "x"]) | texts
messages = st.fixed_dictionaries({}, optional=dict.fromkeys(["a", "b", "_c$1"], message_texts))
tagged = st.fixed_dictionaries({}, optional={"TAGS": message_texts, "KEYS": message_texts})
noise = st.lists(st.sampled_from(FRAGMENTS), max_size=20).map(" ".join) | st.text()

properties = names.map(Property)
numbers = st.sampled_from(NUMBERS).map(Number)
truths = st.booleans().map(Constant)
has_order = properties | numbers | properties.map(Minus)
values = has_order | texts.map(Text)
bounds = st.tuples(has_order, has_order).filter(
    lambda pair: (
        not (isinstance(pair[0], Number) and isinstance(pair[1], Number)) or compared(pair[0], pair[1], {}) <= 0
    )
)
orders = st.builds(Order, has_order, st.sampled_from(["<", "<=", ">", ">="]), has_order)
ranges = st.builds(
    lambda part, pair, negated: Between(part, pair[0], pair[1], negated), has_order, bounds, st.booleans()
)
tests: st.SearchStrategy[Tree] = st.one_of(
    orders,
    orders,
    ranges,
    ranges,
    st.builds(Equal, properties, values, st.booleans()),
    st.builds(Equal, properties, truths, st.booleans()),
    st.builds(Equal, values, values, st.booleans()),
    st.builds(IsNull, values | truths, st.booleans()),
    st.builds(In, names, st.lists(texts, min_size=1, max_size=4), st.booleans()),
    st.builds(Part, names, st.sampled_from(["contains", "startswith", "endswith"]), texts, st.booleans()),
)
bare: st.SearchStrategy[Tree] = properties | truths | st.just(Constant(None))


def joined(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    """Trees one level higher; what has no name of its own, such as `NOT a`, can be compared too."""
    parts = inner | inner | bare
    logic = st.builds(Logic, st.sampled_from(["and", "or"]), st.lists(parts, min_size=2, max_size=4))
    equal = st.builds(Equal, inner, inner | truths | values, st.booleans()) | st.builds(
        Equal, values, inner, st.booleans()
    )
    return logic | logic | st.builds(Not, parts) | st.builds(IsNull, inner, st.booleans()) | equal


trees = st.recursive(tests, joined, max_leaves=12)
# Seeds, since what hypothesis makes of a `Random` is nearly always the first of all choices.
typists = st.integers(0, 1 << 32).map(lambda seed: Typist(random.Random(seed)))


@settings(max_examples=500)
@given(
    tree=trees,
    stored=st.lists(st.tuples(messages, tagged), min_size=1, max_size=8),
    typist=typists,
)
def test_a_filter_passes_what_the_contract_says(tree: Tree, stored: list[tuple[Texts, Texts]], typist: Typist) -> None:
    forms = {True: tree, False: Not(tree), None: IsNull(tree, negated=False)}
    filters = {value: SqlFilter.parse_expression(typist.text(form)) for value, form in forms.items()}
    for user, system in stored:
        texts = user | {name: text for name, text in system.items() if text}
        try:
            expected = {value for value, form in forms.items() if truth(form, texts) is True}
        except Undecidable:
            expected = set()
        properties = pb.SystemProperties(tag=system.get("TAGS"), keys=[system.get("KEYS", "")])
        message = pb.Message(user_properties=user, body=b"x")
        parts = properties.SerializeToString(), message.SerializeToString()
        assert {value for value, compiled in filters.items() if compiled.passes_message(*parts)} == expected
        may_pass = filters[True].may_pass(tag_hash(system.get("TAGS", "")))
        assert may_pass or True not in expected


@given(text=noise)
@example("a = 1 AND (")
@example("((((((NOT - + ")
def test_any_text_is_compiled_or_refused_with_a_place(text: str) -> None:
    compile_or_be_refused(text)


@given(tree=trees, typist=typists, data=st.data())
def test_a_broken_expression_is_compiled_or_refused_with_a_place(
    tree: Tree, typist: Typist, data: st.DataObject
) -> None:
    text = typist.text(tree)
    begin = data.draw(st.integers(0, len(text)), label="begin")
    end = data.draw(st.integers(begin, len(text)), label="end")
    compile_or_be_refused(text[:begin] + data.draw(st.sampled_from(["", *FRAGMENTS]), label="noise") + text[end:])


def compile_or_be_refused(text: str) -> None:
    try:
        compiled = SqlFilter.parse_expression(text)
    except MessagingError as error:
        refusal = error
    else:
        compiled.passes_message(b"", b"")
        return
    assert refusal.code == pb.ILLEGAL_FILTER_EXPRESSION
    assert re.match(r"the SQL92 expression can't be used: (at character \d+: .|at its end: .|it is )", refusal.message)
