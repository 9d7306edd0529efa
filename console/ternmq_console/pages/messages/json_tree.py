"""Parses JSON to a foldable tree, without recursion and without converting values.

Values are shown as they were sent: numbers with all digits, strings with their escapes, repeated names.

Bounds      values nested deeper than `DEPTH_MAX` are one leaf of text; a tree is cut after `NODES_MAX` nodes.
Cut         if only the beginning of a body is available, the tree of that.
"""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPTH_MAX = 16
NODES_MAX = 3000
LEAF_CHARACTERS = 120
"""Longer leaves are folded."""
_STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*'
_TOKEN = re.compile(
    rf'[ \t\n\r]*(?:(?P<mark>[{{}}\[\],:])|(?P<string>{_STRING}")'
    r"|(?P<plain>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null))"
)
# An incomplete token at the end of a cut text: of a string, a number or a word.
_CUT_TOKEN = re.compile(
    rf"[ \t\n\r]*(?:{_STRING}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?|-|\.|[eE][+-]?|t|tr|tru|f|fa|fal|fals|n|nu|nul|)"
)
_CLOSES = {"{": "}", "[": "]"}


@dataclass(slots=True)
class JsonNode:
    """A value: a leaf with its `text`, or an object or array with its `members`, which `opens` with `{` or `[`.

    `name` is its name in the object, as it was sent, None elsewhere.
    """

    name: str | None
    text: str = ""
    opens: str = ""
    members: "list[JsonNode]" = field(default_factory=list)

    @property
    def closes(self) -> str:
        return _CLOSES[self.opens]

    @property
    def is_long(self) -> bool:
        return len(self.text) > LEAF_CHARACTERS


@dataclass(frozen=True, slots=True)
class JsonTree:
    """The tree of a text; `end` is how many characters of the text it covers."""

    root: JsonNode
    end: int

    @property
    def is_compound(self) -> bool:
        return bool(self.root.opens)

    def byte_length(self, text: str) -> int:
        """Return how many bytes of the body it covers."""
        return len(text[: self.end].encode())


def parse_json(text: str, *, is_cut: bool) -> JsonTree | None:
    """Parse a text; None if it is no JSON. `is_cut` is true if it is only the beginning."""
    return _TreeParser(text, is_cut=is_cut).parse_tree()


class _TreeParser:
    """Parses token by token. `_kinds` are the opening marks of open values; `_open` are those of them that are nodes.

    `_wants` is what may come next: value, first (value or the end), name, first name (or the end), colon, more (a comma
    or the end), nothing.
    """

    def __init__(self, text: str, *, is_cut: bool) -> None:
        self._text, self._is_cut = text, is_cut
        self._kinds: list[str] = []
        self._open: list[JsonNode] = []
        self._root: JsonNode | None = None
        self._name: str | None = None
        self._wants = "value"
        self._nodes = 0
        self._deep_from = 0

    def parse_tree(self) -> JsonTree | None:
        end = 0
        for kind, lexeme, start, end in self._read_tokens():
            if not self._accept_token(kind, lexeme, start, end):
                return None
            if self._nodes >= NODES_MAX and self._root is not None:
                return self._cut_tree(end)  # the rest is not parsed
        rest = self._text[end:]
        if self._root is None:
            return None
        if self._wants == "nothing":
            return None if rest.strip(" \t\n\r") else JsonTree(self._root, len(self._text))
        if self._is_cut and _CUT_TOKEN.fullmatch(rest):
            return self._cut_tree(end)
        return None

    def _read_tokens(self) -> "Iterator[tuple[str, str, int, int]]":
        at = 0
        while match := _TOKEN.match(self._text, at):
            kind = match.lastgroup
            assert kind is not None
            at = match.end()
            yield kind, match[kind], match.start(kind), at

    def _cut_tree(self, end: int) -> JsonTree:
        """Return the tree so far, including a value that is nested too deeply."""
        assert self._root is not None
        if len(self._kinds) > DEPTH_MAX:
            self._add_node(JsonNode(self._name, self._text[self._deep_from : end]))
        return JsonTree(self._root, end)

    def _accept_token(self, kind: str, lexeme: str, start: int, end: int) -> bool:
        """Add a token to the tree; return whether it is allowed here."""
        if self._wants == "colon":
            self._wants = "value"
            return lexeme == ":" and kind == "mark"
        if self._wants in ("name", "first name") and kind == "string":
            if len(self._kinds) == len(self._open):
                self._name = lexeme
            self._wants = "colon"
            return True
        if kind != "mark":
            return self._accept_leaf(lexeme)
        if lexeme in _CLOSES:
            return self._open_node(lexeme, start)
        if lexeme == "," and self._wants == "more":
            self._wants = "name" if self._kinds[-1] == "{" else "value"
            return True
        return self._close_node(lexeme, end)

    def _accept_leaf(self, lexeme: str) -> bool:
        if self._wants not in ("value", "first"):
            return False
        if len(self._kinds) == len(self._open):
            self._add_node(JsonNode(self._name, lexeme))
        self._wants = "more" if self._kinds else "nothing"
        return True

    def _open_node(self, lexeme: str, start: int) -> bool:
        if self._wants not in ("value", "first"):
            return False
        if len(self._kinds) < DEPTH_MAX:
            node = JsonNode(self._name, opens=lexeme)
            self._add_node(node)
            self._open.append(node)
        elif len(self._kinds) == DEPTH_MAX:
            self._deep_from = start
        self._kinds.append(lexeme)
        self._wants = "first name" if lexeme == "{" else "first"
        return True

    def _close_node(self, lexeme: str, end: int) -> bool:
        fits = self._kinds and lexeme == _CLOSES[self._kinds[-1]]
        if not fits or self._wants not in ("more", "first", "first name"):
            return False
        self._kinds.pop()
        if len(self._kinds) < len(self._open):
            self._open.pop()
        elif len(self._kinds) == DEPTH_MAX:
            self._add_node(JsonNode(self._name, self._text[self._deep_from : end]))
        self._wants = "more" if self._kinds else "nothing"
        return True

    def _add_node(self, node: JsonNode) -> None:
        self._nodes += 1
        self._name = None
        if self._open:
            self._open[-1].members.append(node)
        else:
            self._root = node
