"""What waits to be written to a stream."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.shard import shard_frames
from ternmq_common.shard.outbox import FrameOutbox

PIECES = st.lists(st.binary(min_size=1, max_size=40), max_size=30)
FRAME_HEAD_BYTES_MAX = 5


@given(steps=st.lists(PIECES, max_size=8), limit=st.integers(1, 100))
def test_frames_are_what_was_added_in_its_order_and_tokens_match(steps: list[list[bytes]], limit: int) -> None:
    """Pieces are added and taken by turns; a frame is above the limit only if it is one piece."""

    async def run() -> None:
        outbox: FrameOutbox[int] = FrameOutbox(frame_bytes=limit)
        added: list[bytes] = []
        taken: list[int] = []
        for pieces in steps:
            for piece in pieces:
                outbox.add_piece(piece, len(added))
                added.append(piece)
            while len(outbox):
                batch = await outbox.take_batch()
                assert batch.frame == shard_frames.join_pieces([added[token] for token in batch.tokens])
                assert len(batch.tokens) == 1 or len(batch.frame) <= limit + FRAME_HEAD_BYTES_MAX
                taken += batch.tokens
            assert outbox.bytes == 0
        assert taken == list(range(len(added)))

    asyncio.run(run())


async def test_a_taker_waits_for_the_first_piece() -> None:
    outbox: FrameOutbox[str] = FrameOutbox()
    taking = asyncio.ensure_future(outbox.take_batch())
    await asyncio.sleep(0)
    assert not taking.done()
    outbox.add_piece(b"a", "first")
    outbox.add_piece(b"b", "second")
    assert await taking == (shard_frames.join_pieces([b"a", b"b"]), ["first", "second"])


async def test_a_taker_that_is_cancelled_loses_nothing() -> None:
    outbox: FrameOutbox[str] = FrameOutbox()
    taking = asyncio.ensure_future(outbox.take_batch())
    await asyncio.sleep(0)
    outbox.add_piece(b"a", "kept")
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert await outbox.take_batch() == (shard_frames.join_pieces([b"a"]), ["kept"])


async def test_drained_waits_until_what_was_taken_is_written() -> None:
    outbox: FrameOutbox[str] = FrameOutbox()
    await outbox.wait_until_drained()
    outbox.add_piece(b"a", "a")
    await outbox.take_batch()
    drained = asyncio.ensure_future(outbox.wait_until_drained())
    await asyncio.sleep(0)
    assert not drained.done()
    following = asyncio.ensure_future(outbox.take_batch())  # who comes again has written what it took
    await drained
    following.cancel()


async def test_what_is_cleared_is_told_and_counts_as_drained() -> None:
    outbox: FrameOutbox[str] = FrameOutbox()
    outbox.add_piece(b"a", "first")
    await outbox.take_batch()
    outbox.add_piece(b"b", "second")
    drained = asyncio.ensure_future(outbox.wait_until_drained())
    await asyncio.sleep(0)
    assert outbox.clear() == ["second"]
    await drained
    assert outbox.bytes == 0
