"""Small files that are written whole: a line that says what they are and of which version, with a checksum, then JSON.

    TernMQ <what> <version> <crc32 of all other bytes, 8 hexadecimal digits>
    <JSON>

Nothing of such a file is believed before its checksum fits. What can be derived from the commit log is then made anew
by its owner; of what can't, the owner says what a person can do.
"""

import json
import re
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from ternmq_broker.store.files import Folder

_HEAD = re.compile(rb"TernMQ ([a-z-]+) (\d{1,9}) ([0-9a-f]{8})\n")


class DamagedFile(Exception):
    """A file of the store does not say what was once written into it; `name` is the file's."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"the file {name!r} is damaged: {reason}")


class NewerFormat(Exception):
    """Something in the store was written by a newer version of the program."""


def encoded(what: str, version: int, content: object) -> bytes:
    """The bytes of a file of that kind; `content` is what JSON can say."""
    body = json.dumps(content, separators=(",", ":")).encode()
    return b"%s %08x\n%s" % (_begin(what, version), crc32(body, crc32(_begin(what, version))), body)


def _begin(what: str, version: int) -> bytes:
    return f"TernMQ {what} {version}".encode()


def is_checked(data: bytes) -> bool:
    """Whether the bytes begin as such a file does; those of the first layout of the store were bare JSON."""
    return _HEAD.match(data) is not None


def decoded(name: str, what: str, version: int, data: bytes) -> object:
    """The content of the file called `name`. DamagedFile, NewerFormat."""
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
    content: object = json.loads(body)
    return content


def write(folder: "Folder", name: str, what: str, version: int, content: object) -> None:
    """Replace the file; durable when this returns."""
    folder.replace(name, encoded(what, version, content))


def read(folder: "Folder", name: str, what: str, version: int) -> object | None:
    """The content of the file, None if there is none. DamagedFile, NewerFormat."""
    data = folder.content(name)
    return None if data is None else decoded(name, what, version, data)
