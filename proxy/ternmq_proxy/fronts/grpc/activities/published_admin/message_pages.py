"""The pages of QueryMessage: by number, or from where the page before ended.

Bounds    `PAGE_MAX` messages and `PAGE_BYTES_MAX` bytes of them; one message at least, however long it is.
Skipping  a page that is asked for by its number is found by passing over those before it, `SKIPPED_MAX` messages at
          most; a `scroll_id` costs nothing.
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import MIB

if TYPE_CHECKING:
    from ternmq_common.model import StoredMessage
    from ternmq_protos.v2.admin_pb2 import ListMessageRequest

PAGE_MAX = 64
# A client of gRPC takes 4 MiB, unless it was told to take more.
PAGE_BYTES_MAX = 3 * MIB
SKIPPED_MAX = 1024
_NUMBER_DIGITS_MAX = 19


class Page:
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
        """How many messages are to be looked at, if all pass, to see where the next page begins."""
        return self.skipped + self._size - len(self.messages) + 1

    def takes(self, stored: "StoredMessage") -> bool:
        """Whether the message was for this page, or one before it; if not, the next page begins with it."""
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
        """Where to begin among messages that are counted; BAD_REQUEST if the `scroll` is no number."""
        return min(number_of(self.scroll), most) if self.scroll else 0


def asked_page(request: "ListMessageRequest") -> Page:
    """The page that the request asks for, with nothing in it; BAD_REQUEST if there is none such."""
    sizes = [request.page_size if request.HasField("page_size") else 0, request.max_message_nums]
    if min(sizes) < 0:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"a page of {min(sizes)} messages is not possible")
    size = min([PAGE_MAX, *filter(None, sizes)])
    if not request.HasField("page_num"):
        return Page(size, scroll=request.scroll_id)
    if request.scroll_id:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names a page and a scroll_id; one is to be used")
    skipped = (request.page_num - 1) * size
    if not 0 <= skipped <= SKIPPED_MAX:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"page {request.page_num} is not possible: pages begin with 1, and what is behind the first {SKIPPED_MAX} "
            "messages is to be had by scroll_id",
        )
    return Page(size, skipped=skipped)


def number_of(text: str) -> int:
    """A number of a `scroll_id`; BAD_REQUEST if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX):
        raise unknown_scroll()
    return int(text)


def unknown_scroll() -> MessagingError:
    """What is said of a `scroll_id` that no answer to this question had."""
    return MessagingError(ErrorCode.BAD_REQUEST, "the scroll_id is none that an answer to this question gave")
