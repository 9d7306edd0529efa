"""The filter that decides whether a consumer gets a message.

It is a tag expression or an SQL92 condition (`consuming.md, Tag filters`, `consuming.md, SQL92 grammar`).
"""

from abc import ABC, abstractmethod
from typing import Final, NamedTuple


class MessageFilter(ABC):
    """A filter: checks the tag's hash, which the index has, and only then the message itself.

    `expression` is the text of the filter.
    """

    __slots__ = ()
    expression: str

    @property
    @abstractmethod
    def takes_all(self) -> bool:
        """Whether every message passes, so that none need be checked."""

    @abstractmethod
    def may_pass(self, hash_of_tag: int) -> bool:
        """Whether a message with that tag hash can pass."""

    @abstractmethod
    def passes_message(self, system: bytes, rest: bytes) -> bool:
        """Whether the stored message passes; see `NewMessage` for the two parts."""


class FilterText(NamedTuple):
    """A filter as a client wrote it, before it is compiled: an SQL92 condition, or else a tag expression."""

    expression: str
    is_sql: bool = False


ALL_TEXT: Final = FilterText("*")
"""The filter that every message passes."""
