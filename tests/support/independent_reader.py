"""Reads a store by what `broker/STORE.md` says, and by nothing of ours: no import of the broker's."""

import json
import struct
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

HEAD = struct.Struct("<2sBBIQQQQIIHHIII")
BLOCK = struct.Struct("<IIQQQQIIII")
RUN = struct.Struct("<IIQII")
ROW = struct.Struct("<III")
FOOTER = struct.Struct("<IIQQQQQQIIII")


@dataclass(frozen=True)
class ReadRecord:
    """A record of the commit log."""

    log_offset: int
    size: int
    kind: int
    topic: str
    queue_id: int
    queue_offset: int
    tag_hash: int
    durable_to: int
    origin: tuple[int, int] | None
    system: bytes
    rest: bytes


def checked(path: Path) -> object:
    """The content of a checked file."""
    head, _, body = path.read_bytes().partition(b"\n")
    begin, _, check = head.rpartition(b" ")
    assert begin.startswith(b"TernMQ ")
    assert int(check, 16) == crc32(begin + body)
    return json.loads(body)


def log(store: Path) -> list[ReadRecord]:
    """Every record."""
    content = checked(store / "format")
    assert isinstance(content, dict)
    found: list[ReadRecord] = []
    for segment in sorted((store / "commitlog").iterdir()):
        data, at = segment.read_bytes(), 0
        while at < len(data) and data[at]:
            record = _record(data, at, int(segment.name) + at, content["key"])
            found.append(record)
            at += record.size
    return found


def _record(data: bytes, at: int, log_offset: int, key: int) -> ReadRecord:
    (magic, version, kind, size, place, durable_to, queue_offset, _, queue_id, tag, topic_bytes, flags, system_bytes,
     content_check, head_check) = HEAD.unpack_from(data, at)  # fmt: skip
    assert (magic, version, place) == (b"TM", 2, log_offset)
    assert head_check == crc32(data[at : at + 60]) ^ key
    assert content_check == crc32(data[at + 64 : at + size])
    begin = at + 64
    topic = data[begin : begin + topic_bytes].decode()
    begin += topic_bytes
    origin = None
    if flags & 1:
        origin = struct.unpack_from("<QQ", data, begin)
        begin += 16
    if flags & 2:
        begin += 2 + struct.unpack_from("<H", data, begin)[0]
    assert not flags & 4, "there is none in the stores that are read here"
    system, rest = data[begin : begin + system_bytes], data[begin + system_bytes : at + size]
    return ReadRecord(log_offset, size, kind, topic, queue_id, queue_offset, tag, durable_to, origin, system, rest)


def operations(store: Path) -> list[tuple[int, str, int, str, int]]:
    """What is done beside storing messages where there are replicas: log offset, name, queue id, what, number."""
    found = []
    for record in log(store):
        if record.kind == 3 and record.origin is None:
            what, _, number = record.rest.decode().rpartition(" ")
            found.append((record.log_offset, record.topic, record.queue_id, what, int(number)))
    return found


def epochs(store: Path) -> list[list[int]]:
    """Whose part of the log begins where, by the side file."""
    content = checked(store / "epochs")
    assert isinstance(content, dict)
    marks = content["marks"]
    assert isinstance(marks, list)
    return marks


def index(store: Path) -> dict[tuple[str, int, int], tuple[int, int, int]]:
    """By topic, queue id and queue offset: log offset, size and tag hash."""
    found = {}
    for path in sorted((store / "index").glob("0*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            magic, check, size, _, _, base, runs, rows, _, name_bytes = BLOCK.unpack_from(data, at)
            assert magic in (0x58494D54, 0x59494D54)
            assert check == crc32(data[at + 8 : at + size])
            names = data[at + 56 : at + 56 + name_bytes].rstrip(b"\0").decode().split("\n")
            runs_at = at + 56 + name_bytes
            rows_at = runs_at + 24 * runs
            table = list(ROW.iter_unpack(data[rows_at : rows_at + 12 * rows]))
            for name, queue_id, first, row, count in RUN.iter_unpack(data[runs_at:rows_at]):
                for number in range(count):
                    position, length, tag = table[row + number]
                    found[names[name], queue_id, first + number] = base + position, length, tag
            at += size
    return found


def keys(store: Path) -> set[tuple[int, int]]:
    """Hashes of keys and log offsets of their messages."""
    found = set()
    for path in sorted((store / "index").glob("0*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            _, _, size, _, _, base, runs, rows, count, name_bytes = BLOCK.unpack_from(data, at)
            pages = -(-count // 128)
            hashes_at = at + 56 + name_bytes + 24 * runs + 12 * rows + 4 * pages
            hashes = pages_of(data, hashes_at, count)
            positions = pages_of(data, hashes_at + 4 * count + 4 * pages, count)
            assert hashes[::128] == list(struct.unpack_from(f"<{pages}I", data, hashes_at - 4 * pages))
            assert hashes == sorted(hashes)
            found |= {(each, base + position) for each, position in zip(hashes, positions, strict=True)}
            at += size
    return found


def pages_of(data: bytes, at: int, count: int) -> list[int]:
    values: list[int] = []
    for page, first in enumerate(range(0, count, 128)):
        length = min(128, count - first)
        *more, check = struct.unpack_from(f"<{length + 1}I", data, at)
        assert check == crc32(data[at : at + 4 * length], page)
        values += more
        at += 4 * length + 4
    return values


def timers(store: Path) -> list[tuple[int, int]]:
    """Due times and log offsets of the entries of all runs, without tombstones."""
    found = []
    for path in sorted((store / "timers").iterdir()):
        data = path.read_bytes()
        magic, check, _, _, _, entries, _, _, to_block, _, watermarks, _ = FOOTER.unpack_from(data, len(data) - 72)
        assert magic == 0x52544D54
        blocks = -(-entries // to_block)
        tables = data[entries * 24 : -72]
        assert len(tables) == 20 * blocks + 16 * watermarks
        assert check == crc32(data[-64:], crc32(tables))
        found += [(due, place) for due, place, size, _ in struct.iter_unpack("<QQII", data[: entries * 24]) if size]
    return found


def journal(store: Path) -> list[list[object]]:
    """What the lines of the consumption journal say."""
    said = []
    for line in (store / "consumption" / "journal").read_bytes().splitlines():
        content = line[17:]
        assert int(line[:8], 16) == crc32(content)
        assert line[8:16].decode() == blake2b(content, digest_size=4).hexdigest()
        said.append(json.loads(content))
    return said
