"""What waits to be written to a stream."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.outbox import Outbox
from ternmq_common.shard import form

PIECES = st.lists(st.binary(min_size=1, max_size=40), max_size=30)
FRAME_HEAD_BYTES_MAX = 5


@given(steps=st.lists(PIECES, max_size=8), limit=st.integers(1, 100))
def test_frames_are_what_was_added_in_its_order_and_tokens_match(steps: list[list[bytes]], limit: int) -> None:
    """Pieces are added and taken by turns; a frame is above the limit only if it is one piece."""

    async def run() -> None:
        outbox: Outbox[int] = Outbox(frame_bytes=limit)
        added: list[bytes] = []
        taken: list[int] = []
        for pieces in steps:
            for piece in pieces:
                outbox.add(piece, len(added))
                added.append(piece)
            while len(outbox):
                batch = await outbox.take()
                assert batch.frame == form.frame([added[token] for token in batch.tokens])
                assert len(batch.tokens) == 1 or len(batch.frame) <= limit + FRAME_HEAD_BYTES_MAX
                taken += batch.tokens
            assert outbox.bytes == 0
        assert taken == list(range(len(added)))

    asyncio.run(run())


async def test_a_taker_waits_for_the_first_piece() -> None:
    outbox: Outbox[str] = Outbox()
    taking = asyncio.ensure_future(outbox.take())
    await asyncio.sleep(0)
    assert not taking.done()
    outbox.add(b"a", "first")
    outbox.add(b"b", "second")
    assert await taking == (form.frame([b"a", b"b"]), ["first", "second"])


async def test_a_taker_that_is_cancelled_loses_nothing() -> None:
    outbox: Outbox[str] = Outbox()
    taking = asyncio.ensure_future(outbox.take())
    await asyncio.sleep(0)
    outbox.add(b"a", "kept")
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert await outbox.take() == (form.frame([b"a"]), ["kept"])


async def test_drained_waits_until_what_was_taken_is_written() -> None:
    outbox: Outbox[str] = Outbox()
    await outbox.drained()
    outbox.add(b"a", "a")
    await outbox.take()
    drained = asyncio.ensure_future(outbox.drained())
    await asyncio.sleep(0)
    assert not drained.done()
    following = asyncio.ensure_future(outbox.take())  # who comes again has written what it took
    await drained
    following.cancel()


async def test_what_is_cleared_is_told_and_counts_as_drained() -> None:
    outbox: Outbox[str] = Outbox()
    outbox.add(b"a", "first")
    await outbox.take()
    outbox.add(b"b", "second")
    drained = asyncio.ensure_future(outbox.drained())
    await asyncio.sleep(0)
    assert outbox.clear() == ["second"]
    await drained
    assert outbox.bytes == 0
