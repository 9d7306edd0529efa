"""The pages of a message query: by number, or from where the page before ended.

Bounds    `PAGE_MAX` messages and `PAGE_BYTES_MAX` bytes of them; one message at least, however long it is.
Skipping  a page that is requested by its number is found by passing over those before it, `SKIPPED_MAX` messages at
          most; a `scroll_id` costs nothing.
"""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import MIB

if TYPE_CHECKING:
    from ternmq_common.shard.model import StoredMessage

PAGE_MAX = 64
# A client of gRPC takes 4 MiB by default.
PAGE_BYTES_MAX = 3 * MIB
SKIPPED_MAX = 1024
_NUMBER_DIGITS_MAX = 19


class MessagePageQuery(NamedTuple):
    """Which page: the `number`th, from 1 on, or the one that a page before named as its `scroll`. `size` is how many
    messages it may have; 0 leaves it to the server."""

    size: int = 0
    number: int | None = None
    scroll: str = ""


FIRST_PAGE = MessagePageQuery()


class MessagePage:
    """`messages` so far; `skipped` is how many are passed over yet; `scroll` says where to begin, and `following` where
    the next page does, empty at the end."""

    def __init__(self, size: int, *, skipped: int = 0, scroll: str = "") -> None:
        self._size = size
        self._bytes = 0
        self.skipped = skipped
        self.scroll = scroll
        self.following = ""
        self.messages: list[StoredMessage] = []

    @property
    def most(self) -> int:
        """How many messages must be read, if all pass, to find the start of the next page."""
        return self.skipped + self._size - len(self.messages) + 1

    def take_message(self, stored: "StoredMessage") -> bool:
        """Take the message, and return whether it was for this page, or one before it; if not, the next page begins
        with it."""
        if self.skipped:
            self.skipped -= 1
            return True
        length = len(stored.rest) + len(stored.system)
        if self.messages and (len(self.messages) >= self._size or self._bytes + length > PAGE_BYTES_MAX):
            return False
        self.messages.append(stored)
        self._bytes += length
        return True

    def start_number(self, most: int) -> int:
        """Return where to begin among messages that are counted; BAD_REQUEST if the `scroll` is no number."""
        return min(parse_number(self.scroll), most) if self.scroll else 0


def begin_page(query: MessagePageQuery) -> MessagePage:
    """Return the requested page, still empty. Raises BAD_REQUEST if it is invalid."""
    if query.size < 0:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"a page of {query.size} messages is not possible")
    size = min(query.size or PAGE_MAX, PAGE_MAX)
    if query.number is None:
        return MessagePage(size, scroll=query.scroll)
    if query.scroll:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names a page and a scroll_id; one is to be used")
    skipped = (query.number - 1) * size
    if not 0 <= skipped <= SKIPPED_MAX:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"page {query.number} is not possible: pages begin with 1, and what is behind the first {SKIPPED_MAX} "
            "messages is to be had by scroll_id",
        )
    return MessagePage(size, skipped=skipped)


def parse_number(text: str) -> int:
    """Return a number of a `scroll_id`; BAD_REQUEST if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX):
        raise unknown_scroll_error()
    return int(text)


def unknown_scroll_error() -> MessagingError:
    """Return the error for a `scroll_id` that no answer to this query had."""
    return MessagingError(ErrorCode.BAD_REQUEST, "the scroll_id is none that an answer to this question gave")
