"""Keys that encrypt secrets of users: 32 random bytes, written in base64 or as hexadecimal digits.

A text has one or several, on lines of their own or separated by commas; `#` begins a comment. The first encrypts, all
decrypt: a key is replaced by putting another one before it.
"""

import base64
import binascii
import hashlib
import re
import secrets

KEY_BYTES = 32
KEYS_MAX = 16
_SEPARATOR = re.compile(r"[\s,]+")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_ID_BYTES = 4


def generate_key() -> str:
    """Create a key, in the form for a file or a variable."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def parse_keys(text: str) -> tuple[bytes, ...]:
    """Parse the keys of a text, at least one. ValueError with the mistake, but without the text."""
    lines = (line.partition("#")[0] for line in text.splitlines())
    words = [word for line in lines for word in _SEPARATOR.split(line) if word]
    if not 1 <= len(words) <= KEYS_MAX:
        raise ValueError(f"1 to {KEYS_MAX} keys are needed, and {len(words)} are there; `ternmq user generate-key`")
    return tuple(_parse_key(word, number) for number, word in enumerate(words, start=1))


def key_id(key: bytes) -> str:
    """A name of the key that does not reveal it."""
    return hashlib.sha256(b"ternmq secrets key" + key).digest()[:_ID_BYTES].hex()


def _parse_key(word: str, number: int) -> bytes:
    try:
        key = bytes.fromhex(word) if _HEXADECIMAL.fullmatch(word) else base64.b64decode(word, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(
            f"key {number} is not {KEY_BYTES} bytes in base64 or hexadecimal; `ternmq user generate-key` creates one"
        )
    return key
