"""The form of small files that are written whole: a line with their kind, version and checksum, then JSON.

  TernMQ <what> <version> <crc32 of all other bytes, 8 hexadecimal digits>
  <JSON>

Nothing of such a file is believed before its checksum is right.
"""

import json
import re

from ternmq_common.binary.checksum import crc32

_HEAD = re.compile(rb"TernMQ ([a-z-]+) (\d{1,9}) ([0-9a-f]{8})\n")


class DamagedFile(Exception):
    """A file does not have the content that was written; `name` is the file's name."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"the file {name!r} is damaged: {reason}")


class NewerFormat(Exception):
    """A newer version of the program wrote it."""


def encode_file(what: str, version: int, content: object) -> bytes:
    """Encode a file of that kind; `content` is what JSON can hold."""
    return encode_file_body(what, version, json.dumps(content, separators=(",", ":")).encode())


def encode_file_body(what: str, version: int, body: bytes) -> bytes:
    """Encode a file like `encode_file`, from content that is JSON already."""
    return b"%s %08x\n%s" % (_encode_head(what, version), crc32(body, crc32(_encode_head(what, version))), body)


def _encode_head(what: str, version: int) -> bytes:
    return f"TernMQ {what} {version}".encode()


def is_checked(data: bytes) -> bool:
    """Whether the bytes begin as such a file does."""
    return _HEAD.match(data) is not None


def decode_file(name: str, what: str, version: int, data: bytes) -> object:
    """Decode the content of the file called `name`. DamagedFile, NewerFormat."""
    content: object = json.loads(decode_file_body(name, what, version, data))
    return content


def decode_file_body(name: str, what: str, version: int, data: bytes) -> bytes:
    """Check the file called `name` and return its JSON. DamagedFile, NewerFormat."""
    head = _HEAD.match(data)
    if head is None:
        raise DamagedFile(name, "it does not begin as it should")
    body = data[head.end() :]
    found, check = int(head[2]), int(head[3], 16)
    if check != crc32(body, crc32(data[: head.start(3) - 1])):
        raise DamagedFile(name, "the checksum does not fit")
    if head[1] != what.encode():
        raise DamagedFile(name, f"it is a {head[1].decode()}, not a {what}")
    if found > version:
        raise NewerFormat(f"the file {name!r} has layout {found}, and this program knows layouts up to {version}")
    return body
