"""Tag expressions (`consuming.md, Tag filters`): `*` or nothing for all, else exact tags separated by `||`."""

from dataclasses import dataclass
from typing import Final

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.message_filter import MessageFilter
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.limits import TAG_FILTER_BYTES_MAX, TAGS_MAX
from ternmq_common.printable import cut_text, has_control
from ternmq_protos.v2 import definition_pb2

_HINT = "; write a || b for messages with one of two tags"


def find_tag_problem(tag: str) -> str | None:
    """Why a text can't be the tag of a message; None if it can (`sending.md, Checks`)."""
    if not tag.strip():
        return "a tag is blank"
    if has_control(tag):
        return f"tag {cut_text(tag)!r} holds a control character"
    if "|" in tag:
        return f"tag {cut_text(tag)!r} holds |, which separates tags in filters"
    return None


@dataclass(frozen=True, slots=True)
class TagFilter(MessageFilter):
    """A `MessageFilter` by tags; with `tags` None every message passes, also one without a tag."""

    tags: frozenset[str] | None
    hashes: frozenset[int]
    expression: str = "*"

    @classmethod
    def parse_expression(cls, expression: str) -> "TagFilter":
        """Parse a tag expression.

        ILLEGAL_FILTER_EXPRESSION if it is too long, names no tag, such as `||`, or too many, or one that no message
        can have, such as `a | b`.
        """
        if len(expression) > TAG_FILTER_BYTES_MAX or len(expression.encode()) > TAG_FILTER_BYTES_MAX:
            raise _tag_filter_error(f"it is longer than {TAG_FILTER_BYTES_MAX} bytes")
        if expression.strip() in ("", "*"):
            return ALL
        tags = frozenset(piece.strip() for piece in expression.split("||") if piece.strip())
        if not tags:
            raise _tag_filter_error("it names no tag; write tags separated by ||, or * for all")
        if len(tags) > TAGS_MAX:
            raise _tag_filter_error(f"it names {len(tags)} tags; {TAGS_MAX} are allowed")
        for tag in tags:
            if problem := find_tag_problem(tag):
                raise _tag_filter_error(f"{problem}, so that no message can have it{_HINT if '|' in tag else ''}")
        return cls(tags, frozenset(map(tag_hash, tags)), " || ".join(sorted(tags)))

    @property
    def takes_all(self) -> bool:
        return self.tags is None

    def may_pass(self, hash_of_tag: int) -> bool:
        """Whether a message with that tag hash may pass; `passes_message` finds collisions."""
        return self.tags is None or hash_of_tag in self.hashes

    def passes_message(self, system: bytes, rest: bytes) -> bool:
        """Whether the stored message's own tag passes."""
        del rest
        return self.tags is None or definition_pb2.SystemProperties.FromString(system).tag in self.tags


ALL: Final = TagFilter(None, frozenset())


def _tag_filter_error(reason: str) -> MessagingError:
    return MessagingError(ErrorCode.ILLEGAL_FILTER_EXPRESSION, f"the tag expression can't be used: {reason}")
