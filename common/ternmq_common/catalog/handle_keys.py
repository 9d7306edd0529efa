"""Keyed MACs of receipt handles, recall handles and transaction ids: only a process with a key can create one.

Keys  come from the registry, numbered one by one. The newest is known to all and signs nothing yet: when it begins to
      sign, no process meets a key that it has not read. The one before it signs; one further back is still accepted.
Tag   key's number u8 (its lowest byte) | BLAKE2b of 9 bytes with that key, personalized by the kind of handle, so that
      no handle passes for one of another kind. As text it is hexadecimal.
"""

from dataclasses import dataclass, field
from hashlib import blake2b
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAC_BYTES: Final = 9
KEY_BYTES: Final = 32
KEYS_AT_FIRST: Final = 2
KEYS_MAX: Final = 3
"""One that is only accepted, one that signs, one that will sign next."""


@dataclass(frozen=True, slots=True)
class HandleKey:
    """A key of the registry; `secret` is shown nowhere."""

    number: int
    secret: bytes = field(repr=False)
    created_ms: int


class HandleKeys:
    """The key that signs, and the keys that are accepted; see the module."""

    __slots__ = ("accepted", "number", "secret")

    def __init__(self, keys: "Iterable[HandleKey]") -> None:
        """`keys` has at least one."""
        ordered = sorted(keys, key=lambda key: key.number)
        signing = ordered[-2:][0]
        self.number = number_byte(signing.number)
        self.secret = signing.secret
        self.accepted = {number_byte(key.number): key.secret for key in ordered}

    def sign_handle(self, kind: bytes, bound: bytes) -> str:
        """The tag of a handle of that kind with the content `bound`."""
        return (self.number + _compute_mac(self.secret, kind, bound)).hex()

    def is_valid_tag(self, tag: str, kind: bytes, bound: bytes) -> bool:
        """Whether that is the tag of this content, with a key that is still accepted."""
        try:
            given = bytes.fromhex(tag)
        except ValueError:
            return False
        secret = self.accepted.get(given[:1])
        # Hexadecimal has several spellings, a handle only one.
        return (
            secret is not None and tag == given.hex() and compare_digest(given[1:], _compute_mac(secret, kind, bound))
        )


def number_byte(number: int) -> bytes:
    """The byte for a key in tags: no two of so few keys in a row have the same."""
    return bytes((number & 0xFF,))


def _compute_mac(secret: bytes, kind: bytes, bound: bytes) -> bytes:
    return blake2b(bound, digest_size=MAC_BYTES, key=secret, person=kind).digest()
