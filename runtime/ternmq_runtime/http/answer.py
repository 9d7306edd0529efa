"""An answer that is made whole before it is written."""

from typing import NamedTuple


class Answer(NamedTuple):
    """`realm`: whom the peer is asked to be a user of, if it is asked for name and password."""

    code: int
    content_type: str
    body: bytes
    realm: str = ""
