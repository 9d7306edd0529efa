"""The audit log read backwards: pages that go on although files are put aside, and lines that are no entries."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.access.users import AccessSnapshot, AccessUser
from ternmq_common.clock import SystemClock
from ternmq_common.errors import MessagingError
from ternmq_common.limits import HOUR_MS
from ternmq_common.server_settings import ProxySettings
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.access.audit import AuditLog, LineWriter, RotatedFile
from ternmq_proxy.access.audit_reading.entries import AuditEntry, EntryFilter, parse_entry
from ternmq_proxy.access.audit_reading.files import LINE_BYTES_MAX, find_trails
from ternmq_proxy.access.audit_reading.pages import AuditHistory, AuditPage, BadPage, NoFiles, read_page
from ternmq_proxy.access.needs import TOPIC_PUB
from ternmq_proxy.access.opening import open_access
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.activities.admin.audit import list_audit_entries

if TYPE_CHECKING:
    from ternmq_proxy.catalog.catalog import Catalog
    from ternmq_proxy.services import Services

ALL = EntryFilter()
PAGES_MAX = 10_000


def line(number: int, **fields: object) -> bytes:
    """An entry, `number` milliseconds after 1970."""
    time = datetime.fromtimestamp(number / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    entry = {
        "time": time,
        "user": "alice",
        "source": "10.0.0.7:1",
        "client": "c",
        "call": "DeleteTopic",
        "resource": f"Topic:{number}",
        "allowed": True,
        "why": "a super user",
        **fields,
    }
    return json.dumps(entry).encode() + b"\n"


def pages(
    path: Path, wanted: EntryFilter = ALL, *, limit: int = 1000, read_bytes_max: int = 1 << 21
) -> Iterator[AuditPage]:
    page = ""
    for _ in range(PAGES_MAX):
        found = read_page(path, wanted, page, limit, read_bytes_max)
        yield found
        page = found.following
        if not page:
            return
    raise AssertionError("the pages have no end")


def times(found: Iterator[AuditPage]) -> list[int]:
    return [entry.time_ms for page in found for _, entry in page.entries]


# --- what there is


def test_the_newest_comes_first_over_all_files(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = RotatedFile(path, bytes_max=500, files=100)
    for number in range(20):
        file.write(line(number))
    assert len(list(tmp_path.iterdir())) == 10
    assert times(pages(path)) == list(range(19, -1, -1))


def test_all_processes_of_a_server_are_merged(tmp_path: Path) -> None:
    for number in range(30):
        process = ("", ".worker-0", ".worker-12")[number % 3]
        RotatedFile(tmp_path / f"audit{process}.log", bytes_max=500, files=100).write(line(number))
    for name in ("audit.worker-x.log", "other.log", "audit.log.0", "audit.log.1x", "audit.worker-1.log.bak"):
        (tmp_path / name).write_bytes(line(99))
    found = [
        (process, entry.time_ms) for page in pages(tmp_path / "audit.log", limit=7) for process, entry in page.entries
    ]
    assert [number for _, number in found] == list(range(29, -1, -1))
    assert {process for process, _ in found} == {"", "worker-0", "worker-12"}


def test_what_is_no_file_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    assert list(pages(path)) == [AuditPage(entries=[], following="", reached_ms=None, damaged=0)]
    path.write_bytes(line(5))
    (tmp_path / "audit.log.1").mkdir()
    os.mkfifo(tmp_path / "audit.log.2")
    (tmp_path / "audit.log.3").write_bytes(line(4))
    (tmp_path / "audit.log.4").write_bytes(b"")
    assert times(pages(path)) == [5, 4]


def test_a_pipe_can_not_be_read_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit.log")
    with pytest.raises(NoFiles):
        read_page(tmp_path / "audit.log", ALL, "", 1)


# --- what is wanted


def test_filters() -> None:
    entry = parse_entry(line(1000, user="alice", resource="Topic:Orders-1", allowed=False))
    assert entry is not None
    for taken, left in (
        (EntryFilter(user="alice"), EntryFilter(user="ali")),
        (EntryFilter(call="deletetopic"), EntryFilter(call="Delete")),
        (EntryFilter(resource="topic:orders"), EntryFilter(resource="orders-2")),
        (EntryFilter(is_allowed=False), EntryFilter(is_allowed=True)),
        (EntryFilter(since_ms=1000), EntryFilter(since_ms=1001)),
        (EntryFilter(until_ms=1001), EntryFilter(until_ms=1000)),
    ):
        assert (taken.matches_entry(entry), left.matches_entry(entry)) == (True, False)


def test_what_is_too_old_or_too_new_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = RotatedFile(path, bytes_max=1, files=100)
    hours = list(range(20))
    for hour in hours:
        file.write(line(hour * HOUR_MS))
    wanted = EntryFilter(since_ms=8 * HOUR_MS, until_ms=10 * HOUR_MS)
    (found,) = pages(path, wanted)
    assert [entry.time_ms // HOUR_MS for _, entry in found.entries] == [9, 8]
    assert found.reached_ms == 6 * HOUR_MS  # an hour is for clocks that are set


def test_a_page_ends_when_enough_was_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"".join(line(number) for number in range(2000)))
    found = list(pages(path, EntryFilter(user="nobody"), read_bytes_max=50_000))
    assert [page.entries for page in found] == [[]] * len(found)
    assert 2000 * len(line(1)) // 100_000 < len(found) < 20
    assert [page.reached_ms for page in found][-1] == 0


# --- pages that go on


@given(data=st.data())
def test_a_page_goes_on_where_the_one_before_ended(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is written and put aside meanwhile, by however many: nothing comes twice, and nothing is left out but
    what is gone."""
    folder = tmp_path_factory.mktemp("audit")
    path = folder / "audit.log"
    files = data.draw(st.integers(1, 5), label="files")
    names = data.draw(st.sampled_from([[""], ["", ".worker-0"], [".worker-0", ".worker-1"]]), label="processes")
    writers = [RotatedFile(folder / f"audit{name}.log", bytes_max=400, files=files) for name in names]
    number = 0

    def write(most: int) -> None:
        nonlocal number
        for _ in range(data.draw(st.integers(0, most), label="lines")):
            data.draw(st.sampled_from(writers), label="writer").write(line(number))
            number += 1

    write(30)
    before = set(times(pages(path)))
    page, found = "", list[int]()
    while True:
        told = read_page(path, ALL, page, data.draw(st.integers(1, 4), label="limit"), 1)
        found += [entry.time_ms for _, entry in told.entries]
        page = told.following
        if not page:
            break
        write(3)
    assert found == sorted(found, reverse=True)
    assert len(found) == len(set(found))
    assert set(found) <= before
    assert before - set(found) <= before - set(times(pages(path))), "what is still there was told"


def test_a_file_of_another_beginning_is_another_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"".join(line(number) for number in range(5)))
    first = read_page(path, ALL, "", 2)
    path.write_bytes(b"".join(line(number) for number in range(100, 110)))  # the same inode
    assert read_page(path, ALL, first.following, 100).entries == []


@pytest.mark.parametrize(
    "page", ["x", ",", "../etc:0123456789abcdef:1", ":0123456789abcdef:-1", ":0123456789abcdef:1,"]
)
def test_what_is_no_page_is_refused(tmp_path: Path, page: str) -> None:
    with pytest.raises(BadPage):
        read_page(tmp_path / "audit.log", ALL, page, 1)


def test_a_page_from_elsewhere_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(line(1))
    for page in (":0123456789abcdef:999999999999999999", "worker-7:0123456789abcdef:1"):
        assert read_page(path, ALL, page, 1).entries == []


# --- damage


GARBAGE = (
    b"",
    b"\x00\xff garbage",
    b"{",
    b"[]",
    b"[" * 5000,
    b"null",
    b"{}",
    line(7)[:-3],
    line(7, time="yesterday").strip(),
    line(7, time="2026-13-01T00:00:00.000Z").strip(),
    line(7, time="0000-01-01T00:00:00.000Z").strip(),
    line(7, user=7).strip(),
    line(7, allowed="yes").strip(),
    line(7, left_out=-1).strip(),
    line(7, left_out=1 << 63).strip(),
    line(7, left_out=True).strip(),
    line(7, why="x" * LINE_BYTES_MAX).strip(),
    b"x" * 3 * LINE_BYTES_MAX,
)


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_a_line_that_is_no_entry_is_counted_and_passed_over(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(line(1) + garbage + b"\n" + line(2) + garbage + b"\n" + garbage + b"\n")
    for read_bytes_max in (1, 1 << 21):
        found = list(pages(path, read_bytes_max=read_bytes_max))
        assert times(iter(found)) == [2, 1]
        assert sum(page.damaged for page in found) == 3


@given(data=st.data())
def test_every_entry_is_found_between_whatever_else(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("audit") / "audit.log"
    noise = st.one_of(
        st.binary(max_size=200).map(lambda each: each.replace(b"\n", b"")),
        st.integers(LINE_BYTES_MAX - 2, LINE_BYTES_MAX * 2).map(lambda size: b"y" * size),
        st.sampled_from(GARBAGE),
    )
    parts = data.draw(st.lists(st.one_of(st.none(), noise), max_size=12), label="lines, None: an entry")
    wanted, damaged, content = [], 0, b""
    for number, part in enumerate(parts):
        if part is None:
            wanted.append(number)
            content += line(number)
        else:
            damaged += 1
            content += part + b"\n"
    path.write_bytes(content)
    found = list(pages(path, limit=data.draw(st.integers(1, 5)), read_bytes_max=data.draw(st.integers(1, 20_000))))
    assert times(iter(found)) == wanted[::-1]
    assert sum(page.damaged for page in found) == damaged


def test_a_line_that_is_being_written_is_not_damage(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(line(1) + line(2)[:20])
    found = read_page(path, ALL, "", 10)
    assert ([entry.time_ms for _, entry in found.entries], found.damaged) == ([1], 0)
    path.write_bytes(line(1)[:20])
    assert read_page(path, ALL, "", 10).entries == []


def test_a_file_that_was_put_aside_ends_with_a_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(line(3))
    (tmp_path / "audit.log.1").write_bytes(line(1) + line(2)[:20])
    found = read_page(path, ALL, "", 10)
    assert ([entry.time_ms for _, entry in found.entries], found.damaged) == ([3, 1], 1)


def test_half_a_line_costs_itself_alone(tmp_path: Path) -> None:
    """As a disk that was full, or a process that died, leaves it."""
    path = tmp_path / "audit.log"
    path.write_bytes(line(1) + line(2)[:20])
    file = RotatedFile(path, bytes_max=1 << 20, files=1)
    file.write(line(3))
    file.write(line(4))
    (found,) = pages(path)
    assert ([entry.time_ms for _, entry in found.entries], found.damaged) == ([4, 3, 1], 1)
    RotatedFile(path, bytes_max=1, files=1).write(line(5))
    assert path.read_bytes() == line(5)


def test_bytes_that_are_no_text_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path, bytes_max=1 << 20, files=1, wall_ms=lambda: 5)
    log.record_unauthenticated("a\udcff\x1b", "no such user", rpc="SendMessage", client_id="\u202e", peer="10.0.0.7:1")
    log.close()
    ((_, entry),) = read_page(path, ALL, "", 10).entries
    assert entry == AuditEntry(
        time_ms=5,
        user="a\\udcff\x1b",
        source="10.0.0.7:1",
        client_id="\u202e",
        call="SendMessage",
        resource="",
        is_allowed=False,
        why="not authenticated: no such user",
    )


@given(text=st.text(max_size=5000))
def test_whatever_is_written_is_read(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("audit") / "audit.log"
    log = AuditLog(path, bytes_max=1 << 20, files=1, wall_ms=lambda: 0)
    call = Call(client_id=text, peer="10.0.0.7:1", user=text)
    log.record_denied(call, "SendMessage", TOPIC_PUB.for_resource(text), None)
    log.close()
    found = read_page(path, ALL, "", 10)
    assert (len(found.entries), found.damaged) == (1, 0)
    assert found.entries[0][1].user.startswith(text[:100].encode(errors="backslashreplace").decode())


async def test_a_server_that_writes_to_its_own_log_says_so() -> None:
    settings = ProxySettings(registry="postgresql://u@h/d", access_control=True)
    async with AsyncExitStack() as stack:
        users = AccessSnapshot({"root": AccessUser(name="root", is_super=True)})
        access = open_access(settings, cast("Catalog", SimpleNamespace(access_snapshot=users)), SystemClock(), stack)
        process = SimpleNamespace(server="proxy-1")
        services = cast("Services", SimpleNamespace(access=access, process=process))
        with pytest.raises(MessagingError, match="proxy-1 writes its audit log to its own log") as refused:
            await list_audit_entries(admin_pb2.ListAuditEntriesRequest(), Call(user="root"), services)
    assert refused.value.code == definition_pb2.PRECONDITION_FAILED


# --- while it is written


async def test_what_this_process_wrote_is_there(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    writer = LineWriter(RotatedFile(path, bytes_max=1 << 20, files=1))
    history = AuditHistory(path, writer.flush)
    for number in range(200):
        writer.put(line(number))
        found = await history.load_page(ALL, "", 1)
        assert [entry.time_ms for _, entry in found.entries] == [number]
    writer.close()


def test_a_name_of_which_the_number_is_absurd_is_read_after_the_others(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for name, number in (("", 9), (".1", 8), (".40", 7), (f".{10**40}", 6)):
        path.with_name(path.name + name).write_bytes(line(number))
    assert times(pages(path, limit=3)) == [9, 8, 7, 6]


def test_files_that_are_put_aside_while_they_are_read(tmp_path: Path) -> None:
    """Each reading has whole, growing histories, whatever the writer does meanwhile."""
    path = tmp_path / "audit.log"
    writer = RotatedFile(path, bytes_max=3_500, files=1000)
    is_done = threading.Event()

    def write() -> None:
        for number in range(1000):
            writer.write(line(number))
        is_done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = 0
    while not is_done.is_set():
        found = times(pages(path, limit=200))
        assert found == list(range(len(found) - 1, -1, -1))
        assert len(found) >= seen
        seen = len(found)
    thread.join()
    assert len(find_trails(path)[0].numbers) > 40
    assert times(pages(path)) == list(range(999, -1, -1))
