"""An HTTP answer that is complete before it is written."""

from typing import NamedTuple


class HttpAnswer(NamedTuple):
    """Status, content type and body. With a `realm` the answer requests name and password of a user there."""

    code: int
    content_type: str
    body: bytes
    realm: str = ""
