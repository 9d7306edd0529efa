"""SQL92 filters as trees: a second reading of `consuming.md, SQL92 grammar` and `consuming.md, SQL92 values`, plainer.

Every form says what it is worth for the properties of a message, and how it may be typed.
"""

import math
import random
import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

Texts = dict[str, str]
Value = str | int | float | bool | None
INT32 = range(-(1 << 31), 1 << 31)
INT64 = range(-(1 << 63), 1 << 63)
SIGNS = ("(", ")", ",", "=", "<>", "<", "<=", ">", ">=")
BLANKS = [*[""] * 9, "\n", "\t ", "/* or ' */", " -- )\n"]


class Undecidable(Exception):
    """A text is not the number that is asked for."""


class Tree(Protocol):
    def worth(self, texts: Texts) -> Value: ...

    def tokens(self, typist: "Typist") -> list[str]: ...


class Typist:
    """Chooses the case of keywords, needless parentheses, comments and white space."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def text(self, tree: Tree) -> str:
        typed = ""
        for token in self._whole(tree):
            may_touch = not typed or token in SIGNS or typed.endswith(SIGNS)
            typed += self._rng.choice(["", " "] if may_touch else [" "]) + self._rng.choice(BLANKS) + token
        return typed

    def _whole(self, tree: Tree) -> list[str]:
        tokens = tree.tokens(self)
        return ["(", *tokens, ")"] if self._rng.random() < 0.1 else tokens

    def operand(self, tree: Tree) -> list[str]:
        """The tree where it stands next to an operator that may bind more strongly than its own."""
        tokens = self._whole(tree)
        return tokens if len(tokens) == 1 else ["(", *tokens, ")"]

    def word(self, words: str) -> list[str]:
        return ["".join(self._rng.choice([c.lower(), c.upper()]) for c in word) for word in words.split()]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def truth(tree: Tree, texts: Texts) -> bool | None:
    """The tree as a condition; a bare property is false, or unknown if it is missing."""
    value = tree.worth(texts)
    if isinstance(tree, Property):
        return None if value is None else False
    assert value is None or isinstance(value, bool)
    return value


@dataclass(frozen=True)
class Property:
    name: str

    def worth(self, texts: Texts) -> Value:
        return texts.get(self.name)

    def tokens(self, typist: Typist) -> list[str]:
        del typist
        return [self.name]


@dataclass(frozen=True)
class Text:
    value: str

    def worth(self, texts: Texts) -> Value:
        del texts
        return self.value

    def tokens(self, typist: Typist) -> list[str]:
        del typist
        return [quoted(self.value)]


@dataclass(frozen=True)
class Constant:
    value: bool | None

    def worth(self, texts: Texts) -> Value:
        del texts
        return self.value

    def tokens(self, typist: Typist) -> list[str]:
        return typist.word("null" if self.value is None else str(self.value))


@dataclass(frozen=True)
class Number:
    typed: str

    @property
    def kind(self) -> str:
        if not re.fullmatch("-?[0-9]+[lL]?", self.typed):
            return "double"
        return "int32" if self.typed[-1] in "0123456789" and abs(int(self.typed)) in INT32 else "int64"

    def worth(self, texts: Texts) -> Value:
        del texts
        return float(self.typed) if self.kind == "double" else int(self.typed.rstrip("lL"))

    def tokens(self, typist: Typist) -> list[str]:
        del typist
        return ["-", self.typed[1:]] if self.typed.startswith("-") else [self.typed]


@dataclass(frozen=True)
class Minus:
    part: Property

    def worth(self, texts: Texts) -> None:
        """Texts have no negative."""

    def tokens(self, typist: Typist) -> list[str]:
        return ["-", *typist.operand(self.part)]


@dataclass(frozen=True)
class Logic:
    """AND or OR; nobody looks at what stands behind the part that decides."""

    word: str
    parts: list[Tree]

    def worth(self, texts: Texts) -> Value:
        decides = self.word == "or"
        before = list(takewhile(lambda value: value is not decides, (truth(part, texts) for part in self.parts)))
        if len(before) < len(self.parts):
            return decides
        return None if None in before else not decides

    def tokens(self, typist: Typist) -> list[str]:
        typed = [token for part in self.parts for token in typist.word(self.word) + typist.operand(part)]
        return typed[1:]


@dataclass(frozen=True)
class Not:
    part: Tree

    def worth(self, texts: Texts) -> Value:
        inner = truth(self.part, texts)
        return None if inner is None else not inner

    def tokens(self, typist: Typist) -> list[str]:
        return typist.word("not") + typist.operand(self.part)


@dataclass(frozen=True)
class IsNull:
    part: Tree
    negated: bool

    def worth(self, texts: Texts) -> Value:
        return (self.part.worth(texts) is None) != self.negated

    def tokens(self, typist: Typist) -> list[str]:
        return typist.operand(self.part) + typist.word("is not null" if self.negated else "is null")


@dataclass(frozen=True)
class Equal:
    left: Tree
    right: Tree
    negated: bool

    def worth(self, texts: Texts) -> Value:
        left, right = self.left.worth(texts), self.right.worth(texts)
        if left is None and right is not None:
            return None
        return (left is right if right is None else self._same(left, right, texts)) != self.negated

    def _same(self, left: Value, right: Value, texts: Texts) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return left == right
        if isinstance(left, bool) and isinstance(right, str):
            raise Undecidable
        if isinstance(left, str) and isinstance(right, bool):
            return (left.lower() == "true") == right
        if isinstance(left, bool) or isinstance(right, bool):
            return left is right
        return compared(self.left, self.right, texts) == 0

    def tokens(self, typist: Typist) -> list[str]:
        return [*typist.operand(self.left), "<>" if self.negated else "=", *typist.operand(self.right)]


@dataclass(frozen=True)
class Order:
    left: Tree
    sign: str
    right: Tree

    def worth(self, texts: Texts) -> Value:
        if self.left.worth(texts) is None or self.right.worth(texts) is None:
            return None
        difference = compared(self.left, self.right, texts)
        return {"<": difference < 0, "<=": difference <= 0, ">": difference > 0, ">=": difference >= 0}[self.sign]

    def tokens(self, typist: Typist) -> list[str]:
        return [*typist.operand(self.left), self.sign, *typist.operand(self.right)]


@dataclass(frozen=True)
class Between:
    part: Tree
    low: Tree
    high: Tree
    negated: bool

    def worth(self, texts: Texts) -> Value:
        if self.negated:
            return Logic("or", [Order(self.part, "<", self.low), Order(self.part, ">", self.high)]).worth(texts)
        return Logic("and", [Order(self.part, ">=", self.low), Order(self.part, "<=", self.high)]).worth(texts)

    def tokens(self, typist: Typist) -> list[str]:
        words = typist.word("not between" if self.negated else "between")
        bounds = typist.operand(self.low) + typist.word("and") + typist.operand(self.high)
        return typist.operand(self.part) + words + bounds


@dataclass(frozen=True)
class In:
    name: str
    choices: list[str]
    negated: bool

    def worth(self, texts: Texts) -> Value:
        return None if self.name not in texts else (texts[self.name] in self.choices) != self.negated

    def tokens(self, typist: Typist) -> list[str]:
        listed = [token for choice in self.choices for token in (",", quoted(choice))]
        return [self.name, *typist.word("not in" if self.negated else "in"), "(", *listed[1:], ")"]


@dataclass(frozen=True)
class Part:
    name: str
    word: str
    part: str
    negated: bool

    def worth(self, texts: Texts) -> Value:
        text, size = texts.get(self.name), len(self.part)
        if text is None or not size:
            return False
        places = [at for at in range(len(text)) if text[at : at + size] == self.part]
        wanted = {"contains": places, "startswith": [0], "endswith": [len(text) - size]}[self.word]
        return (not set(places).isdisjoint(wanted)) != self.negated

    def tokens(self, typist: Typist) -> list[str]:
        return [self.name, *typist.word("not " * self.negated + self.word), quoted(self.part)]


def compared(left: Tree, right: Tree, texts: Texts) -> int:
    """Both as numbers of the type that the literal among them says; as doubles without one, or with a fraction."""
    kinds = {tree.kind for tree in (left, right) if isinstance(tree, Number)}
    kind = "double" if "double" in kinds or not kinds else "int32" if kinds == {"int32"} else "int64"
    one, other = (as_number(tree.worth(texts), kind) for tree in (left, right))
    return java_compare(one, other)


def as_number(value: Value, kind: str) -> float:
    if not isinstance(value, str):
        assert value is not None
        return float(value) if kind == "double" else value
    if kind == "double":
        return as_double(value.strip("".join(map(chr, range(0x21)))))
    if not re.fullmatch("[+-]?[0-9]+", value) or int(value) not in (INT32 if kind == "int32" else INT64):
        raise Undecidable
    return int(value)


def as_double(text: str) -> float:
    if text.lstrip("+-") in ("NaN", "Infinity"):
        return float(text)
    if not text.isascii() or "_" in text or not re.search("[0-9]", text):
        raise Undecidable
    try:
        return float(text[:-1] if text[-1] in "dDfF" else text)
    except ValueError:
        raise Undecidable from None


def java_compare(one: float, other: float) -> int:
    """`Double.compare`: NaN above all and equal to itself, -0.0 below 0.0."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) - math.isnan(other)
    if one == other == 0:
        return int(math.copysign(1, one) - math.copysign(1, other))
    return (one > other) - (one < other)
