"""What a leader makes of a follower's stream: of one that may follow, and of whatever else comes over the network."""

import asyncio
import contextlib
import errno
import threading
from bisect import bisect
from typing import Any, cast

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ternmq_broker.server.replication import replica_messages
from ternmq_broker.server.replication.follower_stream import FollowerStream
from ternmq_broker.server.replication.replica_messages import FollowRequest, HeldReport, LeaderHeartbeat
from ternmq_broker.store.copying.copy_start import JoinState
from ternmq_broker.store.disk.files import WouldBlock
from ternmq_common.shard import shard_frames
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.served_call import CallRefused

pytestmark = pytest.mark.plain  # its leader, store and call are stand-ins

KEY = 7
STATE = JoinState(
    key=KEY, layout_1_below=0, log_start=100, log_end=900, low_watermarks=[], forgotten={}, accepted=[], epochs=[]
)
# One strategy for all bodies: each that is made anew is checked anew by hypothesis, which takes longer than the test.
BODIES = st.recursive(
    st.none() | st.integers(-(2**63), 2**63) | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)
KINDS = st.sampled_from(
    [
        *(replica_messages.FOLLOW.what, replica_messages.READY.what, replica_messages.HELD.what, "unknown"),
        *(replica_messages.UNTAKEN.what, replica_messages.LOG_WANTED.what, replica_messages.LOG_GIVEN.what),
    ]
)
GARBAGE = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda what, body: shard_frames.join_pieces([shard_frames.encode_piece(what, 0, body)]), KINDS, BODIES),
)


class Repair:
    """Gives what is asked for."""

    def given(self, position: int, size: int) -> bytes:
        return bytes(min(size, max(0, Store.log_end - position)))


class Store:
    """A leader's log of 1,000 bytes, which begins at 100; its epochs are 1 and 3."""

    repair = Repair()

    log_start, log_end, key = 100, 1000, KEY
    epoch_marks = [(1, 100), (3, 600)]  # noqa: RUF012 - never changed

    @property
    def log(self) -> "Store":
        """All parts are one."""
        return self

    replica_log = layouts = log

    def join_state(self) -> JoinState:
        return STATE

    def log_bytes(self, position: int, size: int, *, may_block: bool) -> tuple[int, bytes]:
        return 100, bytes(min(size, self.log_end - position))


class Leader:
    """What a stream asks of its leader."""

    epoch, in_sync, catch_up_bytes_per_s = 3, frozenset({"known"}), 1 << 30

    def __init__(self) -> None:
        self.store = Store()
        self.refused: str | None = None
        self.holds: list[int] = []
        self.streams: list[FollowerStream] = []
        self.followed = asyncio.Event()

    async def refusal_of(self, hello: FollowRequest) -> str | None:
        return None if hello.store_id == "known" else "it is no replica of this shard"

    def name_of(self, replica: str) -> str:
        return replica

    def add_follower(self, stream: FollowerStream) -> None:
        self.streams.append(stream)
        self.followed.set()

    def remove_follower(self, stream: FollowerStream) -> None:
        self.streams.remove(stream)

    def report_untaken(self, _: FollowerStream, position: int) -> None:
        assert isinstance(position, int)

    def note_held(self, _: FollowerStream, held: HeldReport) -> None:
        self.holds.append(held.position)

    async def whole_journal(self, _: FollowerStream) -> list[bytes]:
        return []

    def create_heartbeat(self) -> LeaderHeartbeat:
        return LeaderHeartbeat(1.0, Store.log_start, Store.log_end, 0)


class Call:
    """A stream that has those frames to read, and then ends; what is written is kept."""

    peer, broken = "somewhere", None

    def __init__(self, *frames: bytes) -> None:
        self._frames = list(frames)
        self.written: list[shard_frames.FramePiece] = []

    async def read_message(self) -> bytes | None:
        return self._frames.pop(0) if self._frames else None

    async def read_all(self) -> list[bytes]:
        await asyncio.sleep(0)
        return [self._frames.pop(0)] if self._frames else []

    def write_messages(self, *frames: bytes) -> None:
        for frame in frames:
            self.written += shard_frames.decode_frame(frame)

    async def wait_drained(self) -> None:
        pass

    async def end_stream(self) -> None:
        pass


class Copying(Call):
    """A stream whose follower takes all that comes, and holds, and says, the whole records of it."""

    def __init__(self, *frames: bytes) -> None:
        super().__init__(*frames)
        self.ends = [Store.log_start]
        self.held = Store.log_start
        self._has: asyncio.Event = asyncio.Event()
        self.has_all = asyncio.Event()

    async def read_all(self) -> list[bytes]:
        await self._has.wait()
        self._has.clear()
        return [said(replica_messages.HELD, HeldReport(self.held, 1.0, 1.0, promises=True))]

    def write_messages(self, *frames: bytes) -> None:
        for frame in frames:
            for piece in shard_frames.decode_frame(frame):
                if piece.what == replica_messages.LOG.what:
                    log = replica_messages.LOG.decode_note(piece)
                    self.held = self.ends[bisect(self.ends, log.position + len(log.data)) - 1]
                    self._has.set()
        if self.held == self.ends[-1]:
            self.has_all.set()


def said(note: "shard_frames.NoteType[Any]", value: object) -> bytes:
    return shard_frames.join_pieces([note.encode_note(value)])


def follow(**fields: Any) -> bytes:  # noqa: ANN401 - fields of `FollowRequest`
    usual = {"shard": "s", "store_id": "known", "epoch": 3, "key": KEY, "marks": [], "start": 0, "end": 0}
    return said(replica_messages.FOLLOW, FollowRequest(**{**usual, **fields}))


async def served(*frames: bytes) -> tuple[Leader, Call]:
    leader, call = Leader(), Call(*frames)
    await FollowerStream(cast("Any", leader), cast("Any", call)).serve_stream()
    return leader, call


def agreed(call: Call) -> replica_messages.LeadAnswer:
    return replica_messages.LEAD.decode_note(call.written[0])


@pytest.mark.parametrize(
    ("marks", "end", "common"),
    [
        ([(1, 100), (3, 600)], 900, 900),
        ([(1, 100), (3, 600)], 1000, 1000),
        ([(1, 100), (2, 500)], 800, 500),
        ([(1, 100)], 800, 600),
    ],
)
async def test_a_log_goes_on_from_where_it_is_the_leader_s(marks: list[tuple[int, int]], end: int, common: int) -> None:
    hello = follow(marks=marks, start=100, end=end)
    leader, call = await served(
        hello,
        said(replica_messages.READY, common),
        said(replica_messages.HELD, HeldReport(common, 1.0, 1.0, promises=True)),
    )
    assert (agreed(call).common, agreed(call).state) == (common, None)
    assert leader.holds == [common]
    assert leader.streams == []


@pytest.mark.parametrize("end", [0, 50])
async def test_who_has_nothing_that_the_leader_still_has_begins_anew(end: int) -> None:
    _, call = await served(follow(end=end, key=KEY), said(replica_messages.READY, STATE.log_start))
    assert agreed(call).state == STATE


async def test_a_stranger_hears_that_he_may_not_follow() -> None:
    leader, call = await served(follow(store_id="other"))
    assert [piece.what for piece in call.written] == [replica_messages.REFUSED.what]
    assert leader.streams == []


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [follow(), said(replica_messages.READY, 5)],
        [follow(marks=[(3, 600), (1, 100)], start=100, end=900)],
        [
            follow(),
            said(replica_messages.READY, 100),
            said(replica_messages.HELD, HeldReport(101 + (1 << 40), 1.0, 1.0, promises=True)),
        ],
        [follow() + follow()],
    ],
)
async def test_what_makes_no_sense_ends_the_stream(frames: list[bytes]) -> None:
    with pytest.raises(CallRefused):
        await served(*frames)


@given(frames=st.lists(GARBAGE, max_size=4), valid=st.integers(0, 2))
def test_nothing_that_comes_does_more_than_end_its_stream(frames: list[bytes], valid: int) -> None:
    begins = [follow(), said(replica_messages.READY, STATE.log_start)][:valid]

    async def serve() -> None:
        leader, call = Leader(), Call(*begins, *frames)
        with contextlib.suppress(CallRefused):
            await FollowerStream(cast("Any", leader), cast("Any", call)).serve_stream()
        assert leader.streams == []
        assert all(position <= Store.log_end for position in leader.holds)

    asyncio.run(serve())


@given(backlog=st.lists(st.integers(1, 700_000), max_size=4), live=st.lists(st.integers(1, 700_000), max_size=4))
@settings(max_examples=40, phases=[Phase.generate])  # each step towards a smaller example would be a wait for nothing
def test_all_comes_though_it_is_cut_anywhere_and_nothing_follows(backlog: list[int], live: list[int]) -> None:
    async def serve() -> None:
        call = Copying(follow(), said(replica_messages.READY, STATE.log_start))
        leader = Leader()
        leader.store.log_end = Store.log_start

        def append(size: int) -> None:
            leader.store.log_end += size
            call.ends.append(leader.store.log_end)
            call.has_all.clear()

        for size in backlog:
            append(size)
        serving = asyncio.create_task(FollowerStream(cast("Any", leader), cast("Any", call)).serve_stream())
        async with asyncio.timeout(20):
            await leader.followed.wait()
            [stream] = leader.streams
            for size in (0, *live):
                append(size)
                stream.send_more()
                await call.has_all.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(serve())


class BrokenCall(Call):
    """A stream that takes nothing any more."""

    def write_messages(self, *frames: bytes) -> None:
        raise StreamBroken("the peer is gone")


class RottenStore(Store):
    """A log that its disk does not give."""

    def log_bytes(self, position: int, size: int, *, may_block: bool) -> tuple[int, bytes]:
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(("call", "store"), [(BrokenCall(), Store()), (Call(), RottenStore())])
def test_what_is_wrong_with_a_follower_is_not_met_by_whoever_wakes_all(call: Call, store: Store) -> None:
    leader = Leader()
    leader.store = store
    stream = FollowerStream(cast("Any", leader), cast("Any", call))
    stream._is_live = True
    stream.sent = stream.held = Store.log_start
    stream.send_more()
    assert (stream.sent, list(stream._on_the_way)) == (Store.log_start, []), "nothing was sent"
    assert stream._woken.is_set(), "so that the task that writes meets it"


class ColdStore(Store):
    """A log that has to be read from the disk, which takes until `may_read`."""

    def __init__(self) -> None:
        self.reads = threading.Event()
        self.may_read = threading.Event()

    def log_bytes(self, position: int, size: int, *, may_block: bool) -> tuple[int, bytes]:
        if not may_block:
            raise WouldBlock(cast("Any", None), position, size)
        self.reads.set()
        self.may_read.wait(20)
        return super().log_bytes(position, size, may_block=may_block)


async def test_a_follower_that_leaves_during_a_read_leaves_no_trace_of_it() -> None:
    leader, store = Leader(), ColdStore()
    leader.store = store
    stream = FollowerStream(cast("Any", leader), cast("Any", Call()))
    reading = asyncio.create_task(stream._write_log())
    await asyncio.to_thread(store.reads.wait, 20)
    reading.cancel()
    store.may_read.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await reading
    assert caught.value.__context__ is None


class Breaking(Copying):
    """A stream that breaks, which its reader has not heard yet."""

    is_broken = False

    def write_messages(self, *frames: bytes) -> None:
        if self.is_broken:
            raise StreamBroken("the follower is gone")
        super().write_messages(*frames)


async def test_a_broken_stream_holds_up_no_other_and_counts_nothing_as_sent() -> None:
    """The simulation of running replicas found it: who follows behind it got nothing until the next message."""
    call, leader = Breaking(follow(), said(replica_messages.READY, STATE.log_start)), Leader()
    call.ends.append(Store.log_end)
    serving = asyncio.create_task(FollowerStream(cast("Any", leader), cast("Any", call)).serve_stream())
    async with asyncio.timeout(20):
        await leader.followed.wait()
        [stream] = leader.streams
        stream.send_more()
        await call.has_all.wait()
        for _ in range(20):  # until the leader has heard that, and the stream is live
            await asyncio.sleep(0)
    sent = stream.sent
    call.is_broken = True
    leader.store.log_end += 100
    stream.send_more()
    assert stream.sent == sent == Store.log_end
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


class Left(Call):
    """A stream that its follower ends when it hears from the registry that it leads."""

    async def wait_drained(self) -> None:
        raise StreamBroken("the follower has no use for it any more")


async def test_a_follower_that_knows_that_it_leads_before_its_leader_says_so_ends_nobody() -> None:
    """A leader that handed over ended its process then."""
    call = Left()
    await FollowerStream(cast("Any", Leader()), cast("Any", call)).send_elected(4)
    assert [piece.what for piece in call.written] == [replica_messages.ELECTED.what]
